//! The dialog for choosing the columns of a table.

use super::frame::{Title, clear, more_around, pane};
use super::grid::put;
use super::part::DrawContext;
use crate::app::{Area, Areas, Choice, Chooser, Rows, View};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

/// Maximum width.
const MAX_WIDTH: u16 = 46;
/// Number of lines of the table that remain visible above it if there is room: its border, its titles, some rows.
const ROWS_ABOVE: u16 = 6;
/// Width of the box before a name.
const BOX: u16 = 4;

/// Draws the dialog at the bottom right, where it covers the least of the table that it changes.
pub fn draw(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, chooser: &Chooser, areas: &mut Areas) {
    let rows = u16::try_from(chooser.rows.len()).unwrap_or(u16::MAX);
    let room = area.height.saturating_sub(ROWS_ABOVE).max(area.height.min(8));
    let (width, height) = (area.width.min(MAX_WIDTH), rows.saturating_add(2).min(room));
    let frame = Rect { x: area.right() - width, y: area.bottom() - height, width, height };
    clear(buf, frame);
    let left = format!("Columns of {}", chooser.table);
    let right = format!("{} of {}", chooser.shown(), chooser.rows.len());
    let inner = pane(buf, frame, d.theme, &Title { left: &left, right: &right, tone: None, focused: true });
    let visible = usize::from(inner.height);
    let top = (chooser.at + 1).saturating_sub(visible);
    more_around(buf, frame, d.theme, (top, chooser.rows.len().saturating_sub(top + visible)), "");
    let name = chooser.rows.iter().map(|row| row.id.width()).max().unwrap_or(0);
    let name = u16::try_from(name).unwrap_or(width);
    let missing = missing(d, areas);
    let mut shown = chooser.rows[..top].iter().filter(|row| row.is_shown).count();
    for (i, (y, choice)) in (inner.y..inner.bottom()).zip(&chooser.rows[top..]).enumerate() {
        let note = missing.get(shown).filter(|_| choice.is_shown).copied().unwrap_or_default();
        shown += usize::from(choice.is_shown);
        row(buf, Rect { y, height: 1, ..inner }, d, choice, (top + i == chooser.at, name, note));
    }
    areas.dialog_lines = visible;
    let Rect { x, y, width, height } = inner;
    areas.dialog_rows =
        Some(Rows { area: Area { x, y, width, height }, first: top, all: chooser.rows.len() });
    areas.dialog = Some(Area { x: frame.x, y: frame.y, width: frame.width, height: frame.height });
}

/// Why each of the chosen columns is not on the screen; empty for those that are.
fn missing(d: &DrawContext<'_>, areas: &Areas) -> Vec<&'static str> {
    let pane = matches!(d.app.view(), View::Cluster(_)).then(|| d.app.pane());
    let (Some(drawn), Some(listing)) = (areas.table_of(pane), d.app.listing()) else { return Vec::new() };
    let headers = listing.headers(&d.app.cell_context(d.now), drawn.rows.height.into());
    let why = |(head, (_, width)): (&crate::app::table::column::ColumnHeader, &(u16, u16))| match width {
        0 if head.width.hides && head.widest == 0 => "empty",
        0 => "no room",
        _ => "",
    };
    headers.iter().zip(&drawn.headers).map(why).collect()
}

/// One column: whether it is shown, its name, its title, and why it is not on the screen.
fn row(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    choice: &Choice,
    (is_chosen, name, note): (bool, u16, &str),
) {
    let (text, dim, warn) = if is_chosen {
        buf.set_style(area, d.theme.selected);
        (d.theme.selected, d.theme.selected, d.theme.selected)
    } else if choice.is_shown {
        (d.theme.text, d.theme.dim, d.theme.warn)
    } else {
        (d.theme.dim, d.theme.dim, d.theme.dim)
    };
    let mark = if choice.is_shown { "[x]" } else { "[ ]" };
    let at = |column: u16| area.x.saturating_add(column).min(area.right());
    let room = |column: u16| area.width.saturating_sub(column);
    put(buf, at(0), area.y, room(0), false, mark, text);
    put(buf, at(BOX), area.y, room(BOX), false, choice.id, text);
    let title = BOX + name + 2;
    put(buf, at(title), area.y, room(title), false, choice.title, dim);
    put(buf, area.x, area.y, area.width, true, note, warn);
}
