//! The prompt in the footer for a filter, a search or a command.

use super::grid::put;
use super::line;
use super::part::DrawContext;
use super::sentence;
use crate::app::input::line::Line;
use crate::app::{Dialog, PromptKind};
use crate::model::text::printable;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

/// The syntax of a filter, shown while it is empty.
const SYNTAX: &str = "words, !word, column:word, ~regex, \"two words\"";

/// The syntax of a search.
const PATTERN: &str = "regex; ignores case unless you type a capital";
/// The syntax of a pattern for the lines to show.
const LINES: &str = "regex, !regex; empty shows all";
/// The syntax of a position in the log.
const GO_TO_EXAMPLES: &str = "line 120, 50%, 14:05, 2026-11-21 14:05, -5m";
/// The syntax of the time since which lines are shown.
const TIME: &str = "10m, 2h, 14:05, 2026-11-20 14:05; empty shows all";
/// The syntax of a file name.
const FILE: &str = "a path on this machine";

/// Draws the prompt; returns the column of the cursor, `None` if no prompt is open.
pub fn draw(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>) -> Option<u16> {
    let Some(prompt) = d.app.prompt() else {
        let Some(Dialog::Text { search, .. }) = d.app.dialog() else { return None };
        return search.is_open.then(|| typed(buf, area, d, "search: ", &search.line));
    };
    let sign = match prompt.kind {
        PromptKind::Filter => "filter: ",
        PromptKind::Search => "search: ",
        PromptKind::Lines => "lines that match: ",
        PromptKind::Command => ":",
        PromptKind::Page => "page of the manual: ",
        PromptKind::Copy => "copy: ",
        PromptKind::Found => "go to the line: ",
        PromptKind::Files => "open: ",
        PromptKind::Processes => "open the node of which process? ",
        PromptKind::Runs => "stacks of: ",
        PromptKind::GoTo => "go to: ",
        PromptKind::Save => "save to the file: ",
        PromptKind::Since => "show since: ",
        PromptKind::Logs => &format!("search the logs of {}: ", d.app.search_scope_label()),
    };
    let syntax = match prompt.kind {
        PromptKind::Filter => SYNTAX,
        PromptKind::Search | PromptKind::Logs => PATTERN,
        PromptKind::Lines => LINES,
        PromptKind::GoTo => GO_TO_EXAMPLES,
        PromptKind::Save => FILE,
        PromptKind::Since => TIME,
        PromptKind::Command
        | PromptKind::Page
        | PromptKind::Copy
        | PromptKind::Found
        | PromptKind::Files
        | PromptKind::Processes
        | PromptKind::Runs => "",
    };
    let is_new = !syntax.is_empty() && prompt.line.is_empty();
    let (beside, style) = if is_new { (syntax, d.theme.dim) } else { (prompt.wrong.as_str(), d.theme.bad) };
    // An error takes up to half of the line.
    let room = u16::try_from(beside.width() + 3).unwrap_or(u16::MAX).min(area.width / 2);
    let room = if prompt.line.is_empty() || beside.is_empty() { 0 } else { room };
    let column = typed(buf, Rect { width: area.width - room, ..area }, d, sign, &prompt.line);
    let end = sign.width() + printable(prompt.line.text()).width() + 4;
    let at = area.x + u16::try_from(end).unwrap_or(area.width).min(area.width - room);
    let width = area.right().saturating_sub(at + 1);
    sentence::put(buf, (at, area.y), width, &printable(beside), style, d.theme);
    Some(column)
}

/// Draws an input line after its label; returns the column of the cursor.
fn typed(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, sign: &str, line: &Line) -> u16 {
    let before = u16::try_from(sign.width()).unwrap_or(0);
    put(buf, area.x + 1, area.y, before, false, sign, d.theme.text);
    let rect = Rect { x: area.x + 1 + before, width: area.width.saturating_sub(before + 1), ..area };
    line::draw(buf, rect, &printable(line.text()), line.cursor(), d.theme.text)
}
