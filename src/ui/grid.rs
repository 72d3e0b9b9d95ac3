//! Tables: columns that fit the width, cells cut with an ellipsis, numbers right-aligned. Only visible rows are built.

use super::Theme;
use crate::app::table::cell::{Cell, Keeps, Role};
use crate::app::table::column::{ColumnHeader, Width};
use crate::app::{Area, TableArea};
use crate::model::sort;
use crate::model::text::{is_plain, width as text_width};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::borrow::Cow;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Space between columns.
pub const GAP: u16 = 1;

/// The widths of columns that fit into that many cells; 0 for omitted ones.
fn fit(headers: &[ColumnHeader], total: u16) -> Vec<u16> {
    let hides = |h: &ColumnHeader| h.width.hides && h.widest == 0;
    let mut kept: Vec<bool> = headers.iter().map(|h| !hides(h) && h.width.least > 0).collect();
    let need = |kept: &[bool], wanted: &dyn Fn(&ColumnHeader) -> u16| -> u16 {
        let chosen = headers.iter().zip(kept).filter(|(_, k)| **k);
        chosen.map(|(h, _)| wanted(h) + GAP).sum::<u16>().saturating_sub(GAP)
    };
    // The shorter forms must be complete as well.
    let enough = |h: &ColumnHeader| if h.briefest > 0 { h.briefest.min(natural(h)) } else { natural(h) };
    let firm = |h: &ColumnHeader| enough(h).min(h.width.firm).max(least(h));
    // First the columns that are easily missed are left out, so that names are complete; then those without any room.
    for (from, wanted) in [(Width::OMITTED_FIRST, &firm as &dyn Fn(&ColumnHeader) -> u16), (1, &least)] {
        while need(&kept, wanted) > total {
            let sparable = (0..headers.len()).filter(|i| kept[*i] && headers[*i].width.spare >= from);
            let Some(spare) = sparable.max_by_key(|i| headers[*i].width.spare) else { break };
            kept[spare] = false;
        }
    }
    let mut widths: Vec<u16> =
        headers.iter().zip(&kept).map(|(h, k)| if *k { least(h) } else { 0 }).collect();
    let mut left = total.saturating_sub(need(&kept, &least));
    for i in (0..headers.len()).filter(|i| kept[*i]) {
        let more = firm(&headers[i]).saturating_sub(widths[i]).min(left);
        widths[i] += more;
        left -= more;
    }
    // Text that would be cut is given room before any other column grows.
    let mut order: Vec<usize> = (0..headers.len()).filter(|i| kept[*i]).collect();
    sort::by_key(&mut order, |i| headers[*i].width.spare);
    for i in order {
        let whole = natural(&headers[i]).saturating_sub(widths[i]);
        // If the complete texts do not fit, their shorter forms need no more than this.
        let brief = headers[i].briefest.saturating_sub(widths[i]);
        let more = if whole > left && headers[i].briefest > 0 { brief.min(left) } else { whole.min(left) };
        widths[i] += more;
        left -= more;
    }
    let growing: Vec<usize> = (0..headers.len()).filter(|i| kept[*i] && headers[*i].width.grows).collect();
    for (n, i) in growing.iter().enumerate() {
        let share = left.div_ceil(u16::try_from(growing.len() - n).unwrap_or(1));
        widths[*i] += share;
        left -= share;
    }
    let mut used = 0;
    for width in &mut widths {
        *width = (*width).min(total.saturating_sub(used));
        used += if *width > 0 { *width + GAP } else { 0 };
    }
    widths
}

/// The minimum width, with room for the arrow of the sort order next to the title.
fn least(head: &ColumnHeader) -> u16 {
    let titled = u16::try_from(head.title.width()).unwrap_or(0) + 1;
    if head.sorted.is_some() { head.width.least.max(titled) } else { head.width.least }
}

/// The width at which no text is cut.
fn natural(head: &ColumnHeader) -> u16 {
    head.widest.clamp(head.width.least, head.width.most.max(head.width.least)).max(least(head))
}

/// A table to draw.
pub struct Grid<'a> {
    /// The columns from left to right.
    pub headers: &'a [ColumnHeader],
    /// First row to show.
    pub top: usize,
    /// The number of rows.
    pub rows: usize,
    /// The selected row and its style.
    pub selected: Option<(usize, Style)>,
}

impl Grid<'_> {
    /// Draws titles and visible rows; returns their areas.
    pub fn draw<'r>(
        &self,
        buf: &mut Buffer,
        area: Rect,
        theme: &Theme,
        row: impl Fn(usize) -> Vec<Cell<'r>>,
    ) -> TableArea {
        let widths = fit(self.headers, area.width);
        if area.height == 0 {
            return TableArea::default();
        }
        let mut x = area.x;
        let mut headers = Vec::with_capacity(widths.len());
        for (head, width) in self.headers.iter().zip(&widths) {
            headers.push((x, *width));
            if *width > 0 {
                put(buf, x, area.y, *width, head.width.right, &title(head), theme.heading);
                x += width + GAP;
            }
        }
        let body = Rect { y: area.y + 1, height: area.height - 1, ..area };
        let visible = (self.top..self.rows).take(body.height.into());
        for (y, position) in (body.y..).zip(visible) {
            let chosen = self.selected.filter(|(at, _)| *at == position).map(|(_, style)| style);
            self.draw_row(buf, Rect { y, height: 1, ..body }, theme, (&row(position), &widths), chosen);
        }
        let rows = Area { x: body.x, y: body.y, width: body.width, height: body.height };
        TableArea { rows, headers, ..TableArea::default() }
    }

    fn draw_row(
        &self,
        buf: &mut Buffer,
        line: Rect,
        theme: &Theme,
        (cells, widths): (&[Cell<'_>], &[u16]),
        chosen: Option<Style>,
    ) {
        if let Some(style) = chosen {
            buf.set_style(line, style);
        }
        // In the margin, so that columns do not move.
        if let Some(margin) = line.x.checked_sub(1).filter(|_| cells.iter().any(|cell| cell.marks)) {
            put(buf, margin, line.y, 1, false, "◆", theme.accent);
        }
        let mut x = line.x;
        let visible = cells.iter().zip(self.headers).zip(widths).filter(|(_, width)| **width > 0);
        let visible: Vec<(&Cell<'_>, &ColumnHeader, u16)> = visible.map(|((c, h), w)| (c, h, *w)).collect();
        let mut rest = visible.as_slice();
        while let Some(((cell, head, width), after)) = rest.split_first() {
            let empty = rest.iter().take_while(|(cell, ..)| cell.text.is_empty()).count();
            if empty > 0
                && x > line.x
                && let Some((leading, _, width)) = rest.get(empty).filter(|(cell, ..)| cell.leads)
            {
                let before: u16 = rest[..empty].iter().map(|(_, _, width)| width + GAP).sum();
                let style = style_of(leading, theme, chosen);
                put(buf, x, line.y, before + width, false, &leading.text, style);
                x += before + width + GAP;
                rest = &rest[empty + 1..];
                continue;
            }
            // A column that is never left out is not covered either: a row without its name could be mistaken for
            // another.
            let is_covered = |(cell, head, _): &&(&Cell<'_>, &ColumnHeader, u16)| {
                head.width.spare > 0 || cell.text.is_empty()
            };
            let covered = if cell.spans { after.iter().take_while(is_covered).count() } else { 0 };
            let (covered, after) = after.split_at(covered);
            let style = style_of(cell, theme, chosen);
            // The texts of a column are either all complete or all in their shorter form; one that covers others is
            // complete.
            let is_brief =
                if cell.spans { covered.is_empty() && !after.is_empty() } else { head.widest > *width };
            let text = cell.brief.as_ref().filter(|_| is_brief).unwrap_or(&cell.text);
            let more: u16 = covered.iter().map(|(_, _, width)| width + GAP).sum();
            let (width, right) = match cell.spans {
                true if after.is_empty() => (line.right() - x, false),
                true => (width + more, false),
                false => (*width, head.width.right),
            };
            let text = match cell.keeps {
                Keeps::Beginning => Cow::Borrowed(&**text),
                Keeps::End => cut_front(text, width.into()),
                Keeps::Both => cut_middle(text, width.into()),
            };
            put(buf, x, line.y, width, right, &text, style);
            x += width + GAP;
            rest = after;
        }
    }
}

/// A cell without a value has no style of its column.
fn style_of(cell: &Cell<'_>, theme: &Theme, chosen: Option<Style>) -> Style {
    let role = if cell.text == "-" { Role::Dim } else { cell.role };
    chosen.map_or(theme.role(role), |selected| theme.selected_cell(role, selected))
}

fn title(head: &ColumnHeader) -> Cow<'static, str> {
    match head.sorted {
        None => Cow::Borrowed(head.title),
        Some(false) => Cow::Owned(format!("{}▾", head.title)),
        Some(true) => Cow::Owned(format!("{}▴", head.title)),
    }
}

/// Writes text into that many cells, cut with an ellipsis.
pub fn put(buf: &mut Buffer, x: u16, y: u16, width: u16, right: bool, text: &str, style: Style) {
    let text = cut(text, width.into());
    let free = width.saturating_sub(u16::try_from(text_width(&text)).unwrap_or(width));
    let x = if right { x + free } else { x };
    if !is_plain(&text) {
        buf.set_stringn(x, y, &text, width.into(), style);
        return;
    }
    // Like `set_stringn`, which searches for graphemes; most of a frame is plain text.
    let end = x.saturating_add(width).min(buf.area.right());
    for (x, character) in (x..end).zip(text.chars()) {
        buf[(x, y)].set_char(character).set_style(style);
    }
}

/// The text in at most that many columns, with `…` at the end if something was cut.
pub fn cut(text: &str, width: usize) -> Cow<'_, str> {
    if text_width(text) <= width {
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

/// The end of the text in at most that many columns, after `…` if something was cut.
pub fn cut_front(text: &str, width: usize) -> Cow<'_, str> {
    if text_width(text) <= width {
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

/// The text in at most that many columns, with `…` in the middle if something was cut; slightly more of its beginning
/// is kept.
pub fn cut_middle(text: &str, width: usize) -> Cow<'_, str> {
    if text_width(text) <= width {
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
    fn text_is_truncated_by_its_display_width() {
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
    fn less_important_columns_are_dropped_first_and_the_rest_fills_the_line() {
        let headers = [
            ColumnHeader::plain("A", Width::text(10, 10, 0)),
            ColumnHeader::plain("B", Width::rest(10, 10, 1)),
            ColumnHeader::plain("C", Width::number(5, 2)),
        ];
        assert_eq!(fit(&headers, 40), [10, 23, 5]);
        assert_eq!(fit(&headers, 25), [10, 14, 0]);
        assert_eq!(fit(&headers, 15), [15, 0, 0].map(|w: u16| w.min(10)));
        assert_eq!(fit(&headers, 4), [4, 0, 0]);
        assert_eq!(fit(&headers, 0), [0, 0, 0]);
    }

    #[test]
    fn truncated_and_firm_columns_get_width_before_less_important_ones() {
        let name = ColumnHeader { widest: 20, ..ColumnHeader::plain("NAME", Width::text(8, 30, 0).firm(30)) };
        let easy = ColumnHeader { widest: 9, ..ColumnHeader::plain("EASY", Width::rest(5, 40, 4)) };
        let empty = ColumnHeader { widest: 0, ..ColumnHeader::plain("NONE", Width::text(6, 6, 3).hiding()) };
        assert_eq!(
            fit(&[name, easy, empty], 40),
            [20, 19, 0],
            "complete text, then the rest; nothing without text"
        );
        assert_eq!(fit(&[name, easy], 22), [20, 0], "the less important column is dropped");
        let sorted = ColumnHeader { sorted: Some(false), ..ColumnHeader::plain("LONG", Width::number(4, 0)) };
        assert_eq!(fit(&[sorted], 9), [5], "room for the arrow");
    }
}
