//! Tables: columns that fit the width, cells cut with an ellipsis, numbers to the right. Only visible rows are made.

use super::Theme;
use crate::app::{Area, Sort};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::borrow::Cow;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Space between columns.
const GAP: u16 = 1;

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The title in the first line.
    pub title: &'static str,
    /// The width in cells before any growth.
    pub width: u16,
    /// Takes what is left over, beyond its width.
    pub grows: bool,
    /// Whether cells are aligned to the right, as numbers are.
    pub right: bool,
    /// Left out first when space is short: the highest number first; 0 stays.
    pub spare: u8,
}

impl Column {
    /// Text of a fixed width.
    pub const fn text(title: &'static str, width: u16, spare: u8) -> Self {
        Self { title, width, grows: false, right: false, spare }
    }

    /// Text that takes what is left over.
    pub const fn rest(title: &'static str, width: u16, spare: u8) -> Self {
        Self { title, width, grows: true, right: false, spare }
    }

    /// A number of a fixed width, aligned to the right.
    pub const fn number(title: &'static str, width: u16, spare: u8) -> Self {
        Self { title, width, grows: false, right: true, spare }
    }
}

/// A cell of a table.
#[derive(Clone, Debug)]
pub struct Cell<'a> {
    text: Cow<'a, str>,
    style: Style,
    /// Takes the rest of the row.
    spans: bool,
    /// What stays when it is cut.
    keeps: Keeps,
}

/// What stays of a text that is cut.
#[derive(Clone, Copy, Debug)]
enum Keeps {
    Beginning,
    End,
    Both,
}

impl<'a> Cell<'a> {
    /// Text that is safe to print, in a style.
    pub fn new(text: impl Into<Cow<'a, str>>, style: Style) -> Self {
        Self { text: text.into(), style, spans: false, keeps: Keeps::Beginning }
    }

    /// The same, cut at its beginning: names that differ at their end (`t1v-n-1a2b3c4d-w-3`, `tpu_slice_v4_32`).
    pub fn ending(text: impl Into<Cow<'a, str>>, style: Style) -> Self {
        Self { keeps: Keeps::End, ..Self::new(text, style) }
    }

    /// The same, cut in its middle: ids that begin with what they are and end with what makes them one of many
    /// (`ray-run-alice-exp1395_qwen3-4f1c`).
    pub fn named(text: impl Into<Cow<'a, str>>, style: Style) -> Self {
        Self { keeps: Keeps::Both, ..Self::new(text, style) }
    }

    /// The same over the rest of the row, in place of the cells that would follow.
    pub fn spanning(text: impl Into<Cow<'a, str>>, style: Style) -> Self {
        Self { spans: true, ..Self::new(text, style) }
    }
}

/// The widths of columns in so many cells; 0 for those left out.
fn fit(columns: &[Column], total: u16) -> Vec<u16> {
    let mut kept: Vec<bool> = vec![true; columns.len()];
    let need = |kept: &[bool]| -> u16 {
        let chosen = columns.iter().zip(kept).filter(|(c, k)| **k && c.width > 0);
        chosen.map(|(c, _)| c.width + GAP).sum::<u16>().saturating_sub(GAP)
    };
    while need(&kept) > total {
        let spare = (0..columns.len())
            .filter(|i| kept[*i] && columns[*i].spare > 0)
            .max_by_key(|i| columns[*i].spare);
        let Some(spare) = spare else { break };
        kept[spare] = false;
    }
    let mut left = total.saturating_sub(need(&kept));
    let mut growing =
        u16::try_from(columns.iter().zip(&kept).filter(|(c, k)| c.grows && **k).count()).unwrap_or(1);
    let mut used = 0;
    let mut widths = Vec::with_capacity(columns.len());
    for (column, kept) in columns.iter().zip(kept) {
        let mut width = if kept { column.width } else { 0 };
        if kept && column.grows {
            let share = left.div_ceil(growing.max(1));
            width += share;
            left -= share;
            growing = growing.saturating_sub(1);
        }
        width = width.min(total.saturating_sub(used));
        if width > 0 {
            used += width + GAP;
        }
        widths.push(width);
    }
    widths
}

/// A table to draw.
pub struct Grid<'a> {
    /// The columns from left to right.
    pub columns: &'a [Column],
    /// The order's column, counted among `sortable`.
    pub sort: Sort,
    /// Titles of the columns that the order may use, in its numbering.
    pub sortable: &'a [&'static str],
    /// First row to show.
    pub top: usize,
    /// The number of rows.
    pub rows: usize,
    /// The selected row, and how it is marked.
    pub selected: Option<(usize, Style)>,
}

impl Grid<'_> {
    /// Draws titles and visible rows; returns where the rows are.
    pub fn draw<'r>(
        &self,
        buf: &mut Buffer,
        area: Rect,
        theme: &Theme,
        row: impl Fn(usize) -> Vec<Cell<'r>>,
    ) -> Area {
        let widths = fit(self.columns, area.width);
        if area.height == 0 {
            return Area::default();
        }
        let mut x = area.x;
        for (column, width) in self.columns.iter().zip(&widths).filter(|(_, w)| **w > 0) {
            put(buf, x, area.y, *width, column.right, &self.title(column), theme.heading);
            x += width + GAP;
        }
        let body = Rect { y: area.y + 1, height: area.height - 1, ..area };
        let visible = (self.top..self.rows).take(body.height.into());
        for (y, position) in (body.y..).zip(visible) {
            let chosen = self.selected.filter(|(at, _)| *at == position);
            if let Some((_, style)) = chosen {
                buf.set_style(Rect { y, height: 1, ..body }, style);
            }
            let mut x = body.x;
            for ((cell, column), width) in
                row(position).iter().zip(self.columns).zip(&widths).filter(|(_, w)| **w > 0)
            {
                // "None" is nothing to look at, whatever its column's colour is.
                let style = if cell.text == "-" { theme.dim } else { cell.style };
                // A selection that sets its own colours keeps them over the cell's.
                let style = chosen.map_or(style, |(_, s)| if s.fg.is_some() { s } else { style.patch(s) });
                let (width, right) =
                    if cell.spans { (body.right() - x, false) } else { (*width, column.right) };
                let text = match cell.keeps {
                    Keeps::Beginning => Cow::Borrowed(&*cell.text),
                    Keeps::End => cut_front(&cell.text, width.into()),
                    Keeps::Both => cut_middle(&cell.text, width.into()),
                };
                put(buf, x, y, width, right, &text, style);
                x += width + GAP;
            }
        }
        Area { x: body.x, y: body.y, width: body.width, height: body.height }
    }

    fn title(&self, column: &Column) -> Cow<'static, str> {
        let sorted = self.sort.column.and_then(|c| self.sortable.get(c)).is_some_and(|t| *t == column.title);
        match (sorted, self.sort.inverted) {
            (false, _) => Cow::Borrowed(column.title),
            (true, false) => Cow::Owned(format!("{}▾", column.title)),
            (true, true) => Cow::Owned(format!("{}▴", column.title)),
        }
    }
}

/// Writes text into so many cells, cut with an ellipsis.
pub fn put(buf: &mut Buffer, x: u16, y: u16, width: u16, right: bool, text: &str, style: Style) {
    let text = cut(text, width.into());
    let free = width.saturating_sub(u16::try_from(text.width()).unwrap_or(width));
    let x = if right { x + free } else { x };
    buf.set_stringn(x, y, &text, width.into(), style);
}

/// The text in at most so many columns, with `…` at the end when something was cut.
pub fn cut(text: &str, width: usize) -> Cow<'_, str> {
    // Nearly every cell is short ASCII.
    if (text.is_ascii() && text.len() <= width) || text.width() <= width {
        return Cow::Borrowed(text);
    }
    let mut room = width.saturating_sub(1);
    let mut end = 0;
    for (i, c) in text.char_indices() {
        let w = c.width().unwrap_or(0);
        if w > room {
            break;
        }
        room -= w;
        end = i + c.len_utf8();
    }
    if width == 0 { Cow::Borrowed("") } else { Cow::Owned(format!("{}…", &text[..end])) }
}

/// The end of the text in at most so many columns, after `…` when something was cut.
pub fn cut_front(text: &str, width: usize) -> Cow<'_, str> {
    if (text.is_ascii() && text.len() <= width) || text.width() <= width {
        return Cow::Borrowed(text);
    }
    let mut room = width.saturating_sub(1);
    let mut start = text.len();
    for (i, c) in text.char_indices().rev() {
        let w = c.width().unwrap_or(0);
        if w > room {
            break;
        }
        room -= w;
        start = i;
    }
    if width == 0 { Cow::Borrowed("") } else { Cow::Owned(format!("…{}", &text[start..])) }
}

/// The text in at most so many columns, with `…` in its middle when something was cut: a little more of its beginning
/// stays than of its end.
pub fn cut_middle(text: &str, width: usize) -> Cow<'_, str> {
    if (text.is_ascii() && text.len() <= width) || text.width() <= width {
        return Cow::Borrowed(text);
    }
    if width < 3 {
        return cut(text, width);
    }
    let head = cut(text, width / 2 + 1);
    let tail = cut_front(text, width.saturating_sub(head.width()) + 1);
    Cow::Owned(format!("{head}{}", tail.trim_start_matches('…')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_its_width_on_the_screen() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("x", 0), "");
        assert_eq!(cut_front("abc", 3), "abc");
        assert_eq!(cut_front("t1v-n-1a2b3c4d-w-3", 6), "…d-w-3");
        assert_eq!(cut_front("日本語", 4), "…語");
        assert_eq!(cut_middle("abc", 3), "abc");
        assert_eq!(cut_middle("ray-run-alice-exp1-4f1c", 10), "ray-r…4f1c");
        assert_eq!(cut_middle("日本語日本語", 6), "日…語");
        assert_eq!(["", "…", "a…", "a…d"], [0, 1, 2, 3].map(|n| cut_middle("abcd", n).into_owned())[..]);
        assert_eq!(cut_front("x", 0), "");
    }

    #[test]
    fn columns_that_can_be_spared_go_first_and_the_rest_fills_the_line() {
        let columns = [Column::text("A", 10, 0), Column::rest("B", 10, 1), Column::number("C", 5, 2)];
        assert_eq!(fit(&columns, 40), [10, 23, 5]);
        assert_eq!(fit(&columns, 25), [10, 14, 0]);
        assert_eq!(fit(&columns, 15), [15 - 5, 0, 0]);
        assert_eq!(fit(&columns, 4), [4, 0, 0]);
        assert_eq!(fit(&columns, 0), [0, 0, 0]);
    }
}
