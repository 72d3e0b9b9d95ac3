//! The progress reported in a log, as one live line.

use crate::app::LogView;
use crate::logs::Series;
use crate::model::amount::grouped;
use crate::model::text::printable;
use crate::model::time::brief;
use crate::model::vitals::rate;
use crate::ui::grid::cut;
use crate::ui::part::DrawContext;
use crate::ui::text::level;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::time::Duration;
use unicode_width::UnicodeWidthStr;

/// Maximum number of losses in the sparkline, and the minimum for showing it.
const MAX_LOSSES: usize = 24;
const MIN_LOSSES: usize = 4;
/// Maximum width of the task's name.
const MAX_NAME_WIDTH: usize = 20;

/// Draws it; draws nothing if no progress is known or there is no room.
pub fn draw(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, log: &LogView) {
    let Some((task, series)) = log.progress().filter(|_| area.height > 0) else { return };
    let mut x = area.x;
    for (text, style) in parts(task, series, log.stopped(d.now), d) {
        let room = usize::from(area.right().saturating_sub(x));
        // A part without room is omitted completely, together with the less important ones.
        if text.width() > room {
            return;
        }
        buf.set_string(x, area.y, &text, style);
        x += text.width() as u16 + 2;
    }
    let losses = series.losses(usize::from(area.right().saturating_sub(x)).min(MAX_LOSSES));
    let (low, high) = losses.iter().fold((f64::MAX, f64::MIN), |(low, high), l| (low.min(*l), high.max(*l)));
    if losses.len() >= MIN_LOSSES {
        let line: String = losses.iter().map(|loss| level(*loss, low, high)).collect();
        buf.set_string(x, area.y, line, d.theme.good);
    }
}

/// Its parts, the most important first. If progress has stopped, includes for how long.
fn parts(
    task: &str,
    series: &Series,
    stopped: Option<Duration>,
    d: &DrawContext<'_>,
) -> Vec<(String, Style)> {
    let last = series.last();
    let number = |n: u64| grouped(usize::try_from(n).unwrap_or(usize::MAX));
    let name = printable(if task.is_empty() { "progress" } else { task }).into_owned();
    let mut parts = vec![(cut(&name, MAX_NAME_WIDTH).into_owned(), d.theme.accent)];
    let step = last.and_then(|last| last.step);
    parts.extend(step.map(|step| {
        let of = match series.total().filter(|total| *total > 0) {
            Some(total) => {
                format!("/{} {:.1} %", number(total), step as f64 * 100.0 / total as f64)
            }
            None => String::new(),
        };
        (format!("step {}{of}", number(step)), d.theme.text)
    }));
    parts.extend(last.and_then(|last| last.loss).map(|loss| {
        let style = if loss.is_finite() { d.theme.text } else { d.theme.bad };
        (format!("loss {}", figure(loss)), style)
    }));
    if let Some(age) = stopped {
        parts.push((format!("last step {} ago", brief(age)), d.theme.warn));
    } else {
        parts.extend(series.rate().map(|per_second| (rate(per_second), d.theme.text)));
        parts.extend(series.remaining(d.now).map(|left| (format!("{} left", brief(left)), d.theme.text)));
    }
    let (count, _) = series.not_finite();
    if count > 0 {
        parts.push((format!("{count} not finite"), d.theme.bad));
    }
    parts
}

/// About four significant figures.
fn figure(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => format!("{value}"),
        size if size >= 1000.0 || (size < 0.001 && size > 0.0) => format!("{value:.3e}"),
        size if size >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!(
            [2.345_67, 0.000_04, 12_345.6, 42.0].map(figure),
            ["2.3457", "4.000e-5", "1.235e4", "42.00"]
        );
        assert_eq!(figure(f64::NAN), "NaN");
    }
}
