//! Lists and watches: those of one kind in several namespaces are one stream, with one list at its beginning.

use futures::future::select_all;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::future::ready;
use std::mem;

/// Objects in one page of a first list where the API server does not stream it. A whole page is in memory, and an
/// object may have 1.5 MiB.
const FIRST_LIST_PAGE: u32 = 20;
/// How often a streamed first list may begin without coming to its end.
const UNFINISHED_LISTS: u32 = 3;

type Events<K> = BoxStream<'static, watcher::Result<Event<K>>>;

/// The lists and watches of one kind in all namespaces that the operator serves.
struct Lists<K> {
    /// Those whose list is complete, with the watches that follow.
    complete: Vec<(Api<K>, Events<K>)>,
    /// Those to be listed, of which the last one is listed now.
    rest: Vec<(Api<K>, Events<K>)>,
    /// Whether the last of `rest` has begun.
    has_begun: bool,
}

/// Watches the objects that each of `apis` has. The events are those of one watch: where the list of one namespace
/// begins again, so do those of all others, as the consumer takes objects that a list lacks for deleted.
pub(super) fn listed<K>(
    apis: Vec<Api<K>>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource + DeserializeOwned + Clone + Debug + Send + 'static,
{
    let begin = move |api: Api<K>| {
        let events = listed_of_one(api.clone(), config.clone()).boxed();
        (api, events)
    };
    let rest = apis.into_iter().map(&begin).collect();
    let lists = Lists { complete: Vec::new(), rest, has_begun: false };
    stream::unfold((lists, begin), |(mut lists, begin)| async move {
        let event = lists.next(&begin).await?;
        Some((event, (lists, begin)))
    })
}

impl<K: Send> Lists<K> {
    async fn next(
        &mut self,
        begin: &(impl Fn(Api<K>) -> (Api<K>, Events<K>) + Sync),
    ) -> Option<watcher::Result<Event<K>>> {
        while let Some((_, events)) = self.rest.last_mut() {
            match events.next().await? {
                Ok(Event::Init) if mem::replace(&mut self.has_begun, true) => {
                    let again = self.rest.pop()?;
                    self.begin_again(again, begin);
                    return Some(Ok(Event::Init));
                }
                Ok(Event::Init) if self.complete.is_empty() => return Some(Ok(Event::Init)),
                Ok(Event::Init) => {}
                Ok(Event::InitDone) => {
                    self.complete.extend(self.rest.pop());
                    self.has_begun = false;
                    if self.rest.is_empty() {
                        return Some(Ok(Event::InitDone));
                    }
                }
                event => return Some(event),
            }
        }
        let watches = self.complete.iter_mut().map(|(_, events)| events.next());
        let (event, changed, _) = select_all(watches).await;
        if matches!(event, Some(Ok(Event::Init))) {
            let again = self.complete.swap_remove(changed);
            self.has_begun = true;
            self.begin_again(again, begin);
        }
        event
    }

    /// Lists all namespaces anew, and first the one of `again`, whose list has begun.
    fn begin_again(
        &mut self,
        again: (Api<K>, Events<K>),
        begin: impl Fn(Api<K>) -> (Api<K>, Events<K>),
    ) {
        let others = self.complete.drain(..).chain(self.rest.drain(..));
        self.rest = others.map(|(api, _)| begin(api)).collect();
        self.rest.push(again);
    }
}

/// Watches; the API server streams the first list object by object, so that one object is in memory. Where it cannot
/// (before Kubernetes 1.34, or with the feature `WatchList` off), the list comes in pages, as also where a stream does
/// not end in the time of a watch.
fn listed_of_one<K>(
    api: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource + DeserializeOwned + Clone + Debug + Send + 'static,
{
    let paged = watcher(api.clone(), config.clone().page_size(FIRST_LIST_PAGE));
    let mut begun = 0;
    let streams = move |event: &watcher::Result<Event<K>>| {
        match event {
            Ok(Event::Init) => begun += 1,
            Ok(Event::InitDone) => begun = 0,
            _ => {}
        }
        let is_refused = matches!(
            event,
            Err(watcher::Error::WatchStartFailed(kube::Error::Api(status)))
                if matches!(status.code, 400 | 422)
        );
        let works = !is_refused && begun <= UNFINISHED_LISTS;
        if !works {
            tracing::info!("the API server does not stream first lists: they come in pages");
        }
        ready(works)
    };
    watcher(api, config.streaming_lists()).take_while(streams).chain(paged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::client::Body;
    use kube::{Client, ResourceExt as _};
    use parking_lot::Mutex;
    use std::collections::VecDeque;

    /// `{` is the beginning of a list, `}` its end; before a name, `+` is an object of a list and `!` a change.
    fn event(word: &str) -> Event<ConfigMap> {
        let mut object = ConfigMap::default();
        object.metadata.name = word.get(1..).map(str::to_owned);
        match &word[..1] {
            "{" => Event::Init,
            "+" => Event::InitApply(object),
            "}" => Event::InitDone,
            _ => Event::Apply(object),
        }
    }

    fn word(event: &Event<ConfigMap>) -> String {
        match event {
            Event::Init => "{".to_owned(),
            Event::InitApply(object) => format!("+{}", object.name_any()),
            Event::InitDone => "}".to_owned(),
            Event::Apply(object) | Event::Delete(object) => format!("!{}", object.name_any()),
        }
    }

    /// What comes from the watches of the namespaces a and b; each line is one watch, begun after those before it.
    async fn merged(of_a: &[&str], of_b: &[&str]) -> String {
        let watches = Mutex::new([of_a, of_b].map(|it| it.iter().copied().collect::<VecDeque<_>>()));
        let begin = |api: Api<ConfigMap>| {
            let is_b = api.resource_url().contains("/namespaces/b/");
            let line = watches.lock()[usize::from(is_b)].pop_front().unwrap_or_default();
            let events: Vec<_> = line.split_whitespace().map(|it| Ok(event(it))).collect();
            (api, stream::iter(events).chain(stream::pending()).boxed())
        };
        let (service, _server) = tower_test::mock::pair::<Request<Body>, Response<Body>>();
        let client = Client::new(service, "a");
        let apis = ["b", "a"].map(|namespace| Api::namespaced(client.clone(), namespace));
        let rest = apis.into_iter().map(begin).collect();
        let mut lists = Lists { complete: Vec::new(), rest, has_begun: false };
        let mut words = Vec::new();
        while let Some(Some(event)) = futures::FutureExt::now_or_never(lists.next(&begin)) {
            words.push(word(&event.unwrap()));
        }
        words.join(" ")
    }

    #[tokio::test]
    async fn several_namespaces_have_one_list_and_then_their_changes() {
        for (of_a, of_b, expected) in [
            (&["{ +a1 +a2 } !a3"][..], &["{ +b1 } !b2"][..], "{ +a1 +a2 +b1 } !a3 !b2"),
            // A list begins again, after it was complete and before: those of the others follow.
            (&["{ +a1 }", "{ +a2 } !a3"], &["{ +b1 } !b2 { +b3 }"], "{ +a1 +b1 } !b2 { +b3 +a2 } !a3"),
            (&["{ +a1 }", "{ +a2 }"], &["{ +b1 { +b2 }"], "{ +a1 +b1 { +b2 +a2 }"),
            (&["{ +a1 { +a2 }"], &["{ +b1 }"], "{ +a1 { +a2 +b1 }"),
        ] {
            assert_eq!(merged(of_a, of_b).await, expected);
        }
    }
}
