use super::*;
use proptest::prelude::*;

fn list(hosts: &[&str]) -> Hostlist {
    let mut list = Hostlist::default();
    for host in hosts {
        list.push(Range::one(host));
    }
    list
}

/// The result of `read` on a thread with a small stack, because the reader must not recurse over its input.
fn on_a_small_stack<T: Send>(read: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(256 << 10);
        thread.spawn_scoped(scope, read).unwrap().join().unwrap()
    })
}

#[test]
fn hosts_are_in_the_order_of_ranks_and_keep_their_padding() {
    for (text, hosts, twice) in [
        ("a[0-2,7],b", "a0 a1 a2 a7 b", None),
        ("n[08-10]", "n08 n09 n10", None),
        ("r[0-1]n[0-1]", "r0n0 r0n1 r1n0 r1n1", None),
        ("r[0,3-4]n[1]x", "r0n1x r3n1x r4n1x", None),
        ("a0[8-11]", "a08 a09 a010 a011", None),
        ("b,a,b", "b a b", Some("b")),
        ("n[07-10],n[9-10]", "n07 n08 n09 n10 n9 n10", Some("n10")),
        ("n[07-08],n[7-8]", "n07 n08 n7 n8", None),
    ] {
        let list = Hostlist::parse(text).unwrap();
        assert_eq!(list.hosts().collect::<Vec<_>>().join(" "), hosts);
        assert_eq!(list.listed_twice().as_deref(), twice, "{text}");
    }
}

#[test]
fn texts_that_are_no_hostlist_are_refused() {
    let broken = [
        "", "a,", "a[0-", "a]0", "a[[0]]", "a[2-1]", "a[x]", "a[]", "a b", "a
b", "ä",
    ];
    for text in broken.into_iter().chain(["a[0-99999999999]"]) {
        assert!(Hostlist::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn a_cluster_of_one_is_written_without_brackets() {
    assert_eq!(Hostlist::of_range("one", 0..1).to_string(), "one-0");
    assert_eq!(Hostlist::of_range("plain", 0..4).to_string(), "plain-[0-3]");
    assert_eq!(Hostlist::of_range("none", 3..3).to_string(), "");
}

#[test]
fn different_paddings_are_not_mixed() {
    assert_eq!(list(&["a9", "a010", "a11"]).to_string(), "a9,a010,a11");
    assert_eq!(list(&["a09", "a10"]).to_string(), "a[09-10]");
    assert_eq!(list(&["a09", "a10"]).rank("a9"), None);
}

#[test]
fn the_first_host_is_left_out() {
    for (text, rest) in [("a[0-2],b", "a[1-2],b"), ("a,b", "b"), ("a0", ""), ("a[09-10]", "a10")] {
        assert_eq!(Hostlist::parse(text).unwrap().without_first().to_string(), rest);
    }
}

#[test]
fn indexes_are_counted_up_to_the_first_that_is_missing() {
    for (text, count) in [
        ("hello-[0-3]", 4),
        ("hello-[2-3],x,hello-[0-1]", 4),
        ("hello-[0,2-3]", 1),
        ("hello-[1-3]", 0),
        ("hello-[00-03]", 0),
        ("hello-1-[0-3],other-[0-3]", 0),
        ("hello-[0-9],hello-[08-12]", 13),
    ] {
        assert_eq!(Hostlist::parse(text).unwrap().indexes_of("hello"), count, "{text}");
    }
}

#[test]
fn a_hundred_thousand_hosts_are_one_range() {
    let list = Hostlist::of_range("hello", 0..100_000);
    assert_eq!(list.ranges.len(), 1);
    assert_eq!((list.len(), list.indexes_of("hello")), (100_000, 100_000));
    assert_eq!(list.rank("hello-99999"), Some(99_999));
    assert_eq!(list.rank("hello-100000"), None);
    assert_eq!(Hostlist::parse("hello-[0-99999]").unwrap(), list);
}

/// Each is refused for what it is, by a message that is short and says the limit.
#[test]
fn what_is_too_much_is_refused_before_it_is_expanded() {
    let many_hosts = "a[0-999]b[0-999]c[0-999]".to_owned();
    let cases = [
        ("a[0]".repeat(100_000), "65536 characters"),
        ("a".to_owned() + &"[0]".repeat(20_000), "8 brackets"),
        (format!("a[{}]", "0".repeat(70_000)), "65536 characters"),
        (format!("a[{}]", "0".repeat(60_000)), "60000 digits, at most 18"),
        (format!("a[0-{}]", "9".repeat(19)), "19 digits, at most 18"),
        (format!("{}[0-131071]", "a".repeat(4_000)), "4006 characters, at most 253"),
        (many_hosts, "131072 hosts"),
        ("a[0-131072]".to_owned(), "131072 hosts"),
        ("a[0-100000],b[0-100000]".to_owned(), "131072 hosts"),
        (format!("{}[0-999]b", "a".repeat(200)), "65536 characters"),
    ];
    for (text, message) in cases {
        let error = on_a_small_stack(|| Hostlist::parse(&text)).unwrap_err().to_string();
        assert!(error.contains(message) && error.len() < 300, "{message}: {error}");
    }
}

#[test]
fn lists_that_are_too_long_together_are_not_joined() {
    let mut list = Hostlist::of_range("a", 0..100_000);
    let before = list.clone();
    let error = list.append(&Hostlist::of_range("b", 0..100_000)).unwrap_err();
    assert!(error.to_string().contains("131072 hosts"), "{error}");
    assert_eq!(list, before);
    list.append(&Hostlist::of_range("b", 0..1_000)).unwrap();
    assert_eq!(list.to_string(), "a-[0-99999],b-[0-999]");
}

#[test]
fn the_longest_text_reads_back_the_same() {
    let names: Vec<String> = (0..11_500).map(|number| format!("{number:x}z")).collect();
    let text = names.join(",");
    assert!((60_000..=TEXT_LIMIT).contains(&text.len()), "{}", text.len());
    let list = Hostlist::parse(&text).unwrap();
    assert_eq!(Hostlist::parse(&list.to_string()).unwrap(), list);
}

/// Names that read alike in more than one way.
fn names() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(
        prop_oneof![
            "[a-c]([a-z0-9-]{0,5}[a-z0-9])?",
            "[ab][019]{1,3}",
            "[ab]0?[0-9]{17,21}",
            "n(0[0-9]|[0-9]{1,3})",
        ],
        1..40,
    )
}

proptest! {
    #[test]
    fn what_is_written_reads_back_the_same(names in names()) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let list = list(&names);
        prop_assert_eq!(list.hosts().collect::<Vec<_>>(), names.clone());
        prop_assert_eq!(&Hostlist::parse(&list.to_string()).unwrap(), &list);
        for name in &names {
            prop_assert_eq!(list.rank(name), names.iter().position(|other| other == name));
        }
        let twice = (1..names.len()).any(|index| names[..index].contains(&names[index]));
        prop_assert_eq!(list.listed_twice().is_some(), twice);
    }

    #[test]
    fn ranges_are_what_their_hosts_are_one_by_one(text in "[ab](0|1)?\\[[0-9]{1,3}(-1[0-9]{2,3})?(,0?[0-9]{1,2}){0,3}\\](\\[0?[0-2]\\])?") {
        let Ok(parsed) = Hostlist::parse(&text) else { return Ok(()) };
        let names: Vec<String> = parsed.hosts().collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        prop_assert_eq!(parsed.len(), names.len());
        prop_assert_eq!(list(&names).hosts().collect::<Vec<_>>(), names);
        prop_assert_eq!(&Hostlist::parse(&parsed.to_string()).unwrap(), &parsed);
        prop_assert_eq!(Hostlist::parse(&parsed.without_first().to_string()).unwrap_or_default(), parsed.without_first());
    }

    #[test]
    fn no_text_panics_or_exceeds_the_limits(
        start in "[a-c0-9,\\[\\]-]{0,24}",
        pieces in prop::collection::vec(("[a-c0-9,\\[\\]-]{1,6}", 1..20_000_usize), 0..4),
    ) {
        let pieces = pieces.iter().map(|(text, times)| text.repeat(*times));
        let text: String = std::iter::once(start).chain(pieces).collect();
        let parsed = on_a_small_stack(|| Hostlist::parse(&text));
        if let Ok(list) = parsed {
            prop_assert!(list.len() <= Hostlist::LIMIT);
            prop_assert!(list.to_string().len() <= TEXT_LIMIT);
        }
    }
}
