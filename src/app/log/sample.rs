//! A log for the tests of this directory.

use super::view::LogView;
use super::window::Window;
use crate::model::{Line, LogBatch, LogEnd, LogPart, LogSource, StreamId, Timestamp};
use std::ops::Range;

/// 2026-11-23 09:00 UTC.
pub const NOW: Timestamp = Timestamp::from_millis(1_795_424_400_000);

/// A view of that many lines in a window of ten.
pub fn view(lines: usize) -> LogView {
    let mut view = LogView::default();
    view.begin(LogSource::Monitor("monitor.log".into()), StreamId(1));
    view.resize(Window { width: 80, height: 10 });
    push(&mut view, 0..lines);
    view
}

/// Adds the lines of these numbers.
pub fn push(view: &mut LogView, range: std::ops::Range<usize>) {
    lines(view, range.map(|i| format!("line {i}").into()).collect());
}

/// The first line in the window.
pub fn first(view: &LogView) -> &str {
    view.visible().next().unwrap()
}

/// A hundred lines of four rows each in a window of sixteen rows.
pub fn wrapped() -> LogView {
    let mut view = LogView::default();
    view.begin(LogSource::Monitor("monitor.log".into()), StreamId(1));
    view.toggle(|show| &mut show.wrap);
    view.resize(Window { width: 10, height: 16 });
    lines(&mut view, (0..100).map(|i| format!("line {i:02}{}", "-".repeat(33)).into()).collect());
    view
}

/// The numbers of the wrapped lines in the window.
pub fn seen(view: &LogView) -> Vec<&str> {
    view.visible().map(|line| &line[5..7]).collect()
}

/// Adds these lines.
pub fn lines(view: &mut LogView, lines: Vec<Line>) {
    view.take(LogBatch { stream: StreamId(1), part: lines.into(), end: LogEnd::Open }, NOW);
}

/// A view that can hold about fifty lines of [`part`].
pub fn small() -> LogView {
    let mut view = view(0);
    view.limit(50 * Line::from("line 000").bytes());
    view
}

/// Lines of ten bytes each, the first one with this number.
pub fn part(lines: Range<u64>) -> LogPart {
    let text = lines.clone().map(|n| format!("line {n:03}").into()).collect();
    LogPart { lines: text, bytes: lines.start * 10..lines.end * 10, begin: Some(0) }
}

/// Adds lines of [`part`].
pub fn take(view: &mut LogView, lines: Range<u64>) {
    view.take(LogBatch { stream: StreamId(1), part: part(lines), end: LogEnd::Open }, NOW);
}
