//! Converts Markdown of the manual to a man page. A row of a table becomes a paragraph with its first cell as the tag,
//! which wraps at any width.

use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// The man page, in section 7, of a page of the manual; `summary` is its first sentence.
pub(super) fn page(name: &str, summary: &str, text: &str) -> String {
    let mut page = Page::default();
    let source = super::names::source();
    page.roff.control("TH", [name, "7", "", source.as_str(), "marin-tui"]);
    page.roff.control("SH", ["NAME"]);
    page.roff.text([roman(format!("{name} - {}", summary.trim_end_matches('.')))]);
    page.roff.control("SH", ["DESCRIPTION"]);
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        page.event(event);
    }
    page.roff.render()
}

/// Writes lines that are printed unchanged.
pub(super) fn verbatim<'a>(page: &mut Roff, lines: impl IntoIterator<Item = &'a str>) {
    page.control("PP", []).control("RS", ["4"]).control("nf", []);
    for line in lines {
        page.text([roman(line)]);
    }
    page.control("fi", []).control("RE", []);
}

/// A man page being written.
#[derive(Default)]
struct Page {
    roff: Roff,
    /// The text of the current paragraph, cell or heading.
    text: Vec<Inline>,
    style: Style,
    /// The enclosing lists: the next number of each, `None` for bullets.
    lists: Vec<Option<u64>>,
    /// Whether an item has begun, so that its first paragraph continues its line.
    item: bool,
    code: Option<String>,
    /// The column headers of the table, and the cells of its row.
    heads: Vec<String>,
    cells: Vec<Vec<Inline>>,
}

/// The style of text.
#[derive(Clone, Copy, Default)]
enum Style {
    #[default]
    Plain,
    Bold,
    Italic,
    /// Left out: the words of a link to another page, whose name is written instead.
    Left,
}

impl Page {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.begin(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.text.extend(match self.style {
                    Style::Plain => Some(roman(text.as_ref())),
                    Style::Bold => Some(bold(text.as_ref())),
                    Style::Italic => Some(italic(text.as_ref())),
                    Style::Left => None,
                }),
            },
            Event::Code(code) => self.text.push(bold(code.as_ref())),
            Event::SoftBreak | Event::HardBreak => self.text.push(roman(" ")),
            _ => {}
        }
    }

    fn begin(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::List(first) => {
                self.flush();
                if !self.lists.is_empty() {
                    self.roff.control("RS", ["4"]);
                }
                self.lists.push(first);
            }
            Tag::Item => {
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}.", *number - 1)
                    }
                    _ => "•".to_owned(),
                };
                self.roff.control("IP", [mark.as_str(), "4"]);
                self.item = true;
            }
            Tag::CodeBlock(_) => self.code = Some(String::new()),
            Tag::Strong => self.style = Style::Bold,
            Tag::Emphasis => self.style = Style::Italic,
            Tag::Link { dest_url, .. } => {
                if let Some(topic) = dest_url.strip_suffix(".md") {
                    self.text.extend([bold(super::names::page_name(topic)), roman("(7)")]);
                    self.style = Style::Left;
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(level) => self.heading(level),
            TagEnd::Paragraph | TagEnd::Item => self.flush(),
            TagEnd::List(_) => {
                self.lists.pop();
                if !self.lists.is_empty() {
                    self.roff.control("RE", []);
                }
            }
            TagEnd::CodeBlock => {
                if let Some(code) = self.code.take() {
                    verbatim(&mut self.roff, code.lines());
                }
            }
            TagEnd::Strong | TagEnd::Emphasis | TagEnd::Link => self.style = Style::Plain,
            TagEnd::TableCell => self.cells.push(std::mem::take(&mut self.text)),
            TagEnd::TableHead => self.heads = self.cells.drain(..).map(|cell| plain(&cell)).collect(),
            TagEnd::TableRow => self.row(),
            _ => {}
        }
    }

    /// Writes a heading, except for the title, which is already the name of the page.
    fn heading(&mut self, level: HeadingLevel) {
        let text = plain(&std::mem::take(&mut self.text));
        match level {
            HeadingLevel::H1 => {}
            HeadingLevel::H2 => {
                self.roff.control("SH", [text.to_uppercase().as_str()]);
            }
            _ => {
                self.roff.control("SS", [text.as_str()]);
            }
        }
    }

    /// Writes the current paragraph.
    fn flush(&mut self) {
        if self.text.is_empty() {
            return;
        }
        if !std::mem::take(&mut self.item) {
            self.roff.control("PP", []);
        }
        self.roff.text(std::mem::take(&mut self.text));
    }

    /// Writes a row: its first cell is the tag; the other cells follow, with their column's header if there are
    /// several.
    fn row(&mut self) {
        let mut cells = std::mem::take(&mut self.cells).into_iter();
        self.roff.control("TP", []);
        self.roff.text(cells.next().unwrap_or_default());
        let many = cells.len() > 1;
        let mut body = Vec::new();
        for (head, cell) in self.heads.iter().skip(1).zip(cells) {
            if !body.is_empty() {
                body.push(roman("; "));
            }
            if many {
                body.push(roman(format!("{head}: ")));
            }
            body.extend(cell);
        }
        self.roff.text(body);
    }
}

fn plain(text: &[Inline]) -> String {
    text.iter()
        .map(|part| match part {
            Inline::Roman(words) | Inline::Italic(words) | Inline::Bold(words) => words.as_str(),
            Inline::LineBreak => " ",
        })
        .collect()
}
