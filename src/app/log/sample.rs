//! A log for the tests of this folder.

use super::view::LogView;
use super::window::Window;
use crate::model::{LogBatch, LogEnd, LogSource, StreamId};

/// So many lines in a window of ten.
pub fn view(lines: usize) -> LogView {
    let mut view = LogView::default();
    view.begin(LogSource::Monitor("monitor.log".into()), StreamId(1));
    view.drawn(Window { width: 80, height: 10 });
    push(&mut view, 0..lines);
    view
}

/// Takes in the lines of these numbers.
pub fn push(view: &mut LogView, range: std::ops::Range<usize>) {
    let lines = range.map(|i| format!("line {i}").into()).collect();
    view.take(LogBatch { stream: StreamId(1), lines, end: LogEnd::Open });
}

/// The first line in the window.
pub fn first(view: &LogView) -> &str {
    view.visible().next().unwrap()
}

/// A hundred lines of four rows each in a window of sixteen rows.
pub fn wrapped() -> LogView {
    let mut view = LogView::default();
    view.begin(LogSource::Monitor("monitor.log".into()), StreamId(1));
    view.toggle_wrap();
    view.drawn(Window { width: 10, height: 16 });
    let lines = (0..100).map(|i| format!("line {i:02}{}", "-".repeat(33)).into()).collect();
    view.take(LogBatch { stream: StreamId(1), lines, end: LogEnd::Open });
    view
}

/// The numbers of the wrapped lines in the window.
pub fn seen(view: &LogView) -> Vec<&str> {
    view.visible().map(|line| &line[5..7]).collect()
}
