//! Lines and errors over time, above the lines of a log.

use crate::app::{Action, LogView};
use crate::logs::clock;
use crate::model::amount::{counted, grouped};
use crate::model::time::brief;
use crate::ui::grid::cut;
use crate::ui::part::DrawContext;
use crate::ui::text::level;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

/// Height in rows: lines, errors, and the legend.
pub const HEIGHT: u16 = 3;

/// Draws it; draws nothing if there is no room.
pub fn draw(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, log: &LogView) {
    if area.height < HEIGHT || area.width == 0 {
        return;
    }
    let width = usize::from(area.width);
    let Some(histogram) = log.histogram(width) else {
        buf.set_stringn(area.x, area.y, "no line has a timestamp", width, d.theme.dim);
        return;
    };
    let seen = log.seen_bins(&histogram);
    let most = histogram.bins.iter().map(|(lines, _)| *lines).max().unwrap_or(0) as f64;
    let worst = histogram.bins.iter().map(|(_, errors)| *errors).max().unwrap_or(0) as f64;
    // If there are few bins they are drawn wider, to fill the width.
    for column in 0..area.width {
        let bin = usize::from(column) * histogram.bins.len() / width;
        let Some((lines, errors)) = histogram.bins.get(bin) else { break };
        let x = area.x + column;
        let is_seen = seen.as_ref().is_some_and(|seen| seen.contains(&bin));
        let style = if is_seen { d.theme.accent } else { d.theme.text };
        let rows = [(*lines, most, style), (*errors, worst, d.theme.bad)];
        for (y, (n, most, style)) in (area.y..).zip(rows) {
            if n > 0 {
                buf.set_string(x, y, level(n as f64, 0.0, most), style);
            }
        }
    }
    let y = area.y + 2;
    let end = histogram.begins(histogram.bins.len());
    let (from, to) = (clock(histogram.start, d.now), clock(end, d.now));
    let lines: usize = histogram.bins.iter().map(|(lines, _)| lines).sum();
    let errors: usize = histogram.bins.iter().map(|(_, errors)| errors).sum();
    let lines = if lines == 1 { "1 line".to_owned() } else { format!("{} lines", grouped(lines)) };
    let words = format!(
        "{lines}, {}, one bar: {}  {}{} previous/next",
        counted(errors, "error"),
        brief(histogram.width),
        d.app.keymap().key_of(Action::PreviousTime),
        d.app.keymap().key_of(Action::NextTime),
    );
    buf.set_stringn(area.x, y, &from, width, d.theme.dim);
    let room = width.saturating_sub(from.width() + to.width() + 4);
    let words = cut(&words, room);
    buf.set_stringn(area.x + (from.width() + 2) as u16, y, &words, room, d.theme.dim);
    if width >= from.width() + to.width() + 2 {
        buf.set_string(area.x + (width - to.width()) as u16, y, &to, d.theme.dim);
    }
}
