//! The progress of an operation: its steps, its output, and what to do when it is interrupted.

use super::frame::{Title, more_around, pane};
use super::grid::put;
use super::part::{DrawContext, Shown};
use super::text::wrap;
use crate::app::operation::progress::{Ending, OperationProgress, OperationState, StepState};
use crate::app::text::labels::span;
use crate::app::{Action, Area, Areas};
use crate::model::text::printable;
use crate::model::{CancelledState, Hint, StepName};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Minimum number of lines of output.
const MIN_OUTPUT: usize = 2;

/// Below this height only the necessary lines are shown.
const LOW: u16 = 14;

const CONTINUES: &str = "the operation continues when you leave this page; quitting the console interrupts it, and it can be resumed";

/// Draws the operation, scrolled up from its end; records the area of its lines and the maximum scroll position. If not
/// everything fits, the current step, the last output and the verdict stay visible.
pub fn draw(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    (cluster, page): Shown<'_>,
    areas: &mut Areas,
) {
    let Some(running) = &cluster.running else {
        let title = Title { left: "Operation", right: "", tone: None, focused: true };
        let inner = pane(buf, area, d.theme, &title);
        let text = format!("no operation running or interrupted on {}", cluster.name());
        put(buf, inner.x, inner.y, inner.width, false, &text, d.theme.dim);
        return;
    };
    let took = match running.until {
        Some(until) => running.since.age(until),
        None => running.since.age(d.now),
    };
    let right = format!("{} · {}", running.brief(), span(took));
    let tone = match running.state {
        OperationState::Interrupted(..) => d.theme.bad,
        OperationState::Ended(_) if running.shortfall.is_some() => d.theme.bad,
        OperationState::Ended(_) => d.theme.good,
        _ => d.theme.accent,
    };
    let title = Title { left: &running.operation.title, right: &right, tone: Some(tone), focused: true };
    let inner = pane(buf, area, d.theme, &title);
    let (width, visible) = (usize::from(inner.width).max(1), usize::from(inner.height));
    let steps: Vec<Vec<(String, Style)>> = running
        .operation
        .steps
        .iter()
        .zip(&running.steps)
        .map(|(s, m)| wrapped(step(*s, m, running, d), width))
        .collect();
    // The lines up to the current step.
    let at = running.step().map_or(steps.len(), |s| running.operation.number(s));
    let at: usize = steps.iter().take(at).map(Vec::len).sum();
    let steps: Vec<(String, Style)> = steps.into_iter().flatten().collect();
    let mut verdict = verdict(running, d, width, area.height >= LOW);
    if let Some(wait) = cluster.google_wait(d.now).filter(|_| running.is_active()) {
        verdict.extend(wrap(&format!("◌ {wait}"), width).into_iter().map(|line| (line, d.theme.warn)));
    }
    let output: Vec<&str> = running.output().collect();
    let room = visible.saturating_sub(steps.len() + verdict.len() + 1);
    let shown = output.len().min(room.max(MIN_OUTPUT));
    let gap = usize::from(shown > 0);
    let kept = visible.saturating_sub(verdict.len() + gap + shown).clamp(1, steps.len().max(1));
    let first = at.saturating_sub(kept).min(steps.len().saturating_sub(kept));
    let before = output.len().saturating_sub(shown);
    let over = (kept + gap + shown + verdict.len()).saturating_sub(visible);
    // When scrolling up, hidden parts of the page appear first, then earlier output, then earlier steps.
    let last = over + before + first;
    let below = page.operation.below().min(last);
    let (up, rest) = (below.min(over), below.saturating_sub(over));
    let (back, rest) = (rest.min(before), rest.saturating_sub(before));
    let mut lines: Vec<(String, Style)> = steps.into_iter().skip(first - rest).take(kept).collect();
    lines.extend((gap > 0).then(|| (String::new(), d.theme.text)));
    let tail = output.iter().skip(before - back).take(shown);
    lines.extend(tail.map(|line| (format!("  {line}"), d.theme.dim)));
    lines.extend(verdict);
    for (y, (text, style)) in (inner.y..inner.bottom()).zip(lines.into_iter().skip(over - up)) {
        put(buf, inner.x, y, inner.width, false, &text, style);
    }
    more_around(buf, area, d.theme, (last - below, below), "");
    areas.details = Some(Area { x: inner.x, y: inner.y, width: inner.width, height: inner.height });
    areas.details_last = last;
}

/// A step over as many lines as it needs.
fn wrapped((text, style): (String, Style), width: usize) -> Vec<(String, Style)> {
    const INDENT: usize = 4;
    let mut lines = wrap(&text, width).into_iter();
    let first = lines.next().unwrap_or_default();
    let rest = text.get(first.trim_end().len()..).unwrap_or_default().trim_start();
    let rest = if rest.is_empty() { Vec::new() } else { wrap(rest, width.saturating_sub(INDENT).max(1)) };
    let rest = rest.into_iter().map(|line| format!("{}{line}", " ".repeat(INDENT)));
    std::iter::once(first).chain(rest).map(|line| (line, style)).collect()
}

fn step(
    step: StepName,
    state: &StepState,
    running: &OperationProgress,
    d: &DrawContext<'_>,
) -> (String, Style) {
    let (glyph, tail, style) = match state {
        StepState::Waiting => ("○", String::new(), d.theme.dim),
        StepState::Running(since) => ("◐", format!("  {}", span(since.age(d.now))), d.theme.accent),
        StepState::Done(result, took) => {
            let took =
                took.map_or_else(String::new, |s| format!("  {}", span(std::time::Duration::from_secs(s))));
            ("✓", format!(": {}{took}", printable(result)), d.theme.text)
        }
        StepState::Failed => ("✕", String::new(), d.theme.bad),
    };
    // A result is more informative than the task of the step.
    let words = if matches!(state, StepState::Done(..)) { step.label() } else { step.what() };
    (format!("{glyph} {} {words}{tail}", running.operation.number(step)), style)
}

/// The status of the operation, and the keys that are available now.
fn verdict(
    running: &OperationProgress,
    d: &DrawContext<'_>,
    width: usize,
    at_length: bool,
) -> Vec<(String, Style)> {
    let mut lines: Vec<_> = at_length.then(|| (String::new(), d.theme.text)).into_iter().collect();
    let mut add =
        |text: String, style| lines.extend(wrap(&text, width).into_iter().map(|line| (line, style)));
    let key = |action| d.app.keymap().key_of(action);
    match &running.state {
        OperationState::Running if running.may_be_cancelled() => {
            let left = running.leftovers();
            if at_length {
                add(CONTINUES.into(), d.theme.dim);
            }
            let words = left.map_or("", CancelledState::text);
            add(format!("{} cancels; {words}", key(Action::Cancel)), d.theme.text);
            let hint = left.map_or_else(Hint::none, |left| left.hint(&running.operation.task));
            if !hint.is_empty() {
                add(format!("  {}", d.app.hint(&hint)), d.theme.dim);
            }
        }
        OperationState::Running => {
            add(CONTINUES.into(), d.theme.dim);
        }
        OperationState::Cancelling => add("cancelling".into(), d.theme.warn),
        OperationState::Elsewhere => {
            add("running in another process on this machine; watch it there".into(), d.theme.warn);
        }
        OperationState::Ended(Ending::Cancelled(left)) => {
            let hint = Hint::from(left.text()).and(left.hint(&running.operation.task));
            add(format!("{}: cancelled; {}", running.operation.title, d.app.hint(&hint)), d.theme.good);
        }
        OperationState::Ended(over) => {
            add(format!("{}: {}", running.operation.title, over.label()), d.theme.good);
            if let Some(missing) = &running.shortfall {
                add(format!("✕ {}", missing.what), d.theme.bad);
                add(format!("  {}", d.app.hint(&missing.hint)), d.theme.text);
            }
        }
        OperationState::Interrupted(problem, saved) => {
            match problem {
                Some(problem) => {
                    add(format!("✕ {}", problem.what), d.theme.bad);
                    if !problem.hint.is_empty() {
                        add(format!("  {}", d.app.hint(&problem.hint)), d.theme.text);
                    }
                }
                None => add("✕ the process that ran it has exited".into(), d.theme.bad),
            }
            if let Some(folder) = saved {
                add(format!("  jobs saved in {}", printable(folder)), d.theme.text);
            }
            let past = if running.is_skippable() {
                format!("{} skips the failed step   ", key(Action::SkipStep))
            } else {
                String::new()
            };
            if d.app.is_read_only() {
                add("read-only mode: resume it from a console without read-only mode".into(), d.theme.text);
                return lines;
            }
            let (resume, leave) = (key(Action::Resume), key(Action::Abandon));
            add(format!("{resume} resumes at this step   {past}{leave} abandons it"), d.theme.accent);
        }
    }
    lines
}
