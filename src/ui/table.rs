//! A table in its pane: any list of rows, drawn from its columns.

use super::frame::{Title, inside, more_around, on_lower_border, pane};
use super::grid::{GAP, Grid, put};
use super::part::DrawContext;
use super::text::wrap;
use crate::app::{Listing, Pane, TableArea, TextWidths};
use crate::model::amount::grouped;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

/// Draws a page that is a table; returns its area.
pub fn page(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, listing: &dyn Listing) -> TableArea {
    draw(buf, area, d, listing, None)
}

/// Draws a pane of a cluster's page that is a table; returns its area.
pub fn in_pane(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    listing: &dyn Listing,
    pane: (u8, Pane),
) -> TableArea {
    draw(buf, area, d, listing, Some(pane))
}

fn draw(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    listing: &dyn Listing,
    tab: Option<(u8, Pane)>,
) -> TableArea {
    let context = d.app.cell_context(d.now);
    let (title, focused, selection) = match tab {
        Some((number, pane)) => {
            (format!("{number} {}", listing.title()), d.is_focused(pane), d.selection(pane))
        }
        None => (listing.title().to_owned(), true, d.theme.selected),
    };
    // The title depends on which columns have room.
    let drawn = rows(buf, inside(area), d, listing, selection);
    let seen: Vec<usize> =
        (0..).zip(&drawn.headers).filter(|(_, (_, width))| *width > 0).map(|(i, _)| i).collect();
    let visible = usize::from(drawn.rows.height);
    let unseen = listing.unseen_fields(&context, &seen, visible).join(", ");
    let unseen = if unseen.is_empty() { unseen } else { format!(", also in {unseen}") };
    let title = filtered(&title, listing) + &unseen;
    let counts = listing.counts(&context);
    let tone = Some(d.theme.role(counts.role));
    // The column may be one for which the window is too narrow.
    let order =
        listing.sorted_by().map_or_else(String::new, |title| format!(" · by {}", title.to_lowercase()));
    let right = format!("{}{order}", counts.text);
    let right = right.strip_prefix(" · ").unwrap_or(&right);
    pane(buf, area, d.theme, &Title { left: &title, right, tone, focused });
    let above = listing.window(visible);
    let below = listing.len().saturating_sub(above + visible);
    let taken = more_around(buf, area, d.theme, (above, below), "");
    draw_below(buf, Rect { width: area.width - taken, ..area }, d, listing, (&drawn, &seen));
    drawn
}

/// Writes the text of the row under the cursor that does not fit into its column, below the rows if all of it fits
/// there, otherwise on the lower border. If the row matches the filter in a hidden column, that is on the border.
fn draw_below(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    listing: &dyn Listing,
    (drawn, seen): (&TableArea, &[usize]),
) {
    let matched = listing.matches_unseen(&d.app.cell_context(d.now), seen);
    if let Some(text) = &matched {
        on_lower_border(buf, area, text, d.theme.dim);
    }
    let Some(column) = listing.below() else { return };
    let cells = listing.cells(&d.app.cell_context(d.now), listing.cursor());
    let Some(cell) = cells.get(column).filter(|cell| *cell.text != *"-") else { return };
    let width_of = |i: usize| drawn.headers.get(i).map_or(0, |(_, width)| *width);
    let empty = (1..column).rev().take_while(|i| cell.leads && cells[*i].text.is_empty()).map(width_of);
    let width = width_of(column) + empty.filter(|width| *width > 0).map(|width| width + GAP).sum::<u16>();
    if cell.text.width() <= width.into() {
        return;
    }
    let (body, style) = (drawn.rows, d.theme.role(cell.role));
    let lines = wrap(&cell.text, usize::from(body.width).max(1));
    let free = usize::from(body.height).saturating_sub(listing.len());
    // A text that fits on the border needs no rows, and a blank line separates it from the rows.
    if lines.len() >= free || (lines.len() < 2 && matched.is_none()) {
        if matched.is_none() {
            on_lower_border(buf, area, &cell.text, style);
        }
        return;
    }
    let top = body.y + body.height - u16::try_from(lines.len()).unwrap_or(body.height);
    for (y, line) in (top..).zip(&lines) {
        put(buf, body.x, y, body.width, false, line, style);
    }
}

/// Draws titles and rows without a border.
pub fn rows(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    listing: &dyn Listing,
    selection: ratatui::style::Style,
) -> TableArea {
    let context = d.app.cell_context(d.now);
    let height = usize::from(area.height.saturating_sub(1));
    let headers = listing.headers(&context, height);
    let grid = Grid {
        headers: &headers,
        top: listing.window(height),
        rows: listing.len(),
        selected: Some((listing.cursor(), selection)),
    };
    let mut drawn = grid.draw(buf, area, d.theme, |position| listing.cells(&context, position));
    let widths = headers.iter().map(|head| (head.widest, head.briefest)).collect();
    drawn.texts = TextWidths { version: context.version, widths };
    let body = drawn.rows;
    if listing.is_empty() && body.height > 0 {
        put(buf, body.x, body.y, body.width, false, &listing.why_empty(&context), d.theme.dim);
    }
    drawn
}

/// A table's title with the active filter: `2 Jobs  /train 17 of 96`.
pub fn filtered(title: &str, listing: &dyn Listing) -> String {
    match listing.filter().text() {
        "" => title.to_owned(),
        filter => format!("{title}  /{filter} {} of {}", grouped(listing.len()), grouped(listing.total())),
    }
}
