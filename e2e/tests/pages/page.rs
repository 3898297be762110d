//! A page, and what is in it.

use crate::repository;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// Folders with pages, beside the pages at the top of the repository.
const FOLDERS: [&str; 3] = ["docs", "examples", "view-images"];

pub(crate) struct Page {
    pub(crate) path: PathBuf,
    text: String,
}

pub(crate) struct Block {
    /// The word behind the fence.
    pub(crate) language: String,
    pub(crate) text: String,
}

pub(crate) fn pages() -> Vec<Page> {
    let repository = repository();
    let top = WalkDir::new(&repository).max_depth(1);
    let folders = FOLDERS.iter().map(|folder| WalkDir::new(repository.join(folder)));
    let files = std::iter::once(top).chain(folders).flatten().map(|entry| entry.unwrap());
    let pages = files.filter(|entry| entry.path().extension().is_some_and(|it| it == "md"));
    let mut pages: Vec<Page> =
        pages.map(|entry| Page::read(entry.path().strip_prefix(&repository).unwrap())).collect();
    pages.sort_by(|left, right| left.path.cmp(&right.path));
    pages
}

impl Page {
    pub(crate) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(repository().join(path))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { path: path.to_owned(), text }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn events(&self) -> impl Iterator<Item = Event<'_>> {
        Parser::new_ext(&self.text, Options::ENABLE_TABLES)
    }

    /// Where its links and images lead, as they are written.
    pub(crate) fn links(&self) -> Vec<String> {
        let links = self.events().filter_map(|event| {
            if let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event {
                Some(dest_url.into_string())
            } else {
                None
            }
        });
        links.collect()
    }

    pub(crate) fn code(&self) -> Vec<String> {
        let code = self.events().filter_map(|event| {
            if let Event::Code(text) = event { Some(text.into_string()) } else { None }
        });
        code.collect()
    }

    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut inside = false;
        for event in self.events() {
            if let Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) = event {
                inside = true;
                blocks.push(Block { language: language.into_string(), text: String::new() });
            } else if event == Event::End(TagEnd::CodeBlock) {
                inside = false;
            } else if let Event::Text(text) = event
                && inside
            {
                blocks.last_mut().unwrap().text.push_str(&text);
            }
        }
        blocks
    }

    /// The rows of its tables, without their heads: the text of each cell, without the marks of code.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        let rows = self.sources(|event| *event == Event::Start(Tag::TableRow));
        let cells = |row: &str| {
            let cells = row.trim().trim_matches('|').split(" | ");
            cells.map(|cell| cell.trim().replace('`', "")).collect()
        };
        rows.map(cells).collect()
    }

    /// The anchors of its headings, as the repository's host and mdBook make them, and those that it gives itself.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let mut seen: HashMap<String, usize> = HashMap::new();
        let headings = self.sources(|event| matches!(event, Event::Start(Tag::Heading { .. })));
        let anchors = headings.map(|heading| {
            let anchor = anchor(heading.trim_start_matches('#').trim());
            let before = seen.entry(anchor.clone()).or_default();
            let suffix = if *before == 0 { String::new() } else { format!("-{before}") };
            *before += 1;
            anchor + &suffix
        });
        let given = self.events().filter_map(|event| {
            let Event::InlineHtml(tag) = event else { return None };
            Some(tag.strip_prefix("<a id=\"")?.strip_suffix("\">")?.to_owned())
        });
        anchors.chain(given).collect()
    }

    /// The text of what begins with such an event, as it is written.
    fn sources(&self, begins: impl Fn(&Event<'_>) -> bool) -> impl Iterator<Item = &str> {
        let events = Parser::new_ext(&self.text, Options::ENABLE_TABLES).into_offset_iter();
        events.filter(move |(event, _)| begins(event)).map(|(_, range)| &self.text[range])
    }
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|letter| match letter {
        _ if letter.is_whitespace() => Some('-'),
        '-' | '_' => Some(letter),
        _ => letter.is_alphanumeric().then_some(letter),
    });
    kept.flat_map(char::to_lowercase).collect()
}
