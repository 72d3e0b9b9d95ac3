//! The progress of an operation: its steps, its output, and what to do when it is interrupted.

use super::frame::{Title, more_around, pane};
use super::grid::put;
use super::part::{DrawContext, Shown};
use super::text::wrap;
use crate::app::operation::progress::{Ending, OperationProgress, OperationState, StepState};
use crate::app::text::labels::span;
use crate::app::{Action, Area, Areas};
use crate::model::text::printable;
use crate::model::{CancelledState, Hint, Problem, StepName};
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
    let inner = border(buf, area, d, running);
    let width = usize::from(inner.width).max(1);
    let steps = running.operation.steps.iter().zip(&running.steps);
    let steps: Vec<_> = steps.map(|(s, state)| wrapped(step(*s, state, running, d), width)).collect();
    let current = running.step().map_or(steps.len(), |s| running.operation.number(s));
    let wait = cluster.google_wait(d.now).filter(|_| running.is_active());
    let wait = wait.map(|wait| (format!("◌ {wait}"), d.theme.warn));
    let verdict = verdict(running, d, area.height >= LOW).into_iter().chain(wait);
    let parts = Parts {
        current: steps.iter().take(current).map(Vec::len).sum(),
        steps: steps.into_iter().flatten().collect(),
        output: running.output().collect(),
        verdict: verdict
            .flat_map(|(text, style)| wrap(&text, width).into_iter().map(move |line| (line, style)))
            .collect(),
    };
    let (lines, (above, below)) = parts.visible(inner.height.into(), page.operation.below(), d);
    for (y, (text, style)) in (inner.y..inner.bottom()).zip(lines) {
        put(buf, inner.x, y, inner.width, false, &text, style);
    }
    more_around(buf, area, d.theme, (above, below), "");
    areas.details = Some(Area { x: inner.x, y: inner.y, width: inner.width, height: inner.height });
    areas.details_last = above + below;
}

/// Draws the border, with the title and the progress in brief; returns the inner area.
fn border(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, running: &OperationProgress) -> Rect {
    let took = running.since.age(running.until.unwrap_or(d.now));
    let right = format!("{} · {}", running.brief(), span(took));
    let tone = match running.state {
        OperationState::Interrupted(..) => d.theme.bad,
        OperationState::Ended(_) if running.shortfall.is_some() => d.theme.bad,
        OperationState::Ended(_) => d.theme.good,
        _ => d.theme.accent,
    };
    let title = Title { left: &running.operation.title, right: &right, tone: Some(tone), focused: true };
    pane(buf, area, d.theme, &title)
}

/// The lines of the page, wrapped to its width.
struct Parts<'a> {
    steps: Vec<(String, Style)>,
    /// Number of lines of the steps up to the current one.
    current: usize,
    output: Vec<&'a str>,
    verdict: Vec<(String, Style)>,
}

impl Parts<'_> {
    /// The lines that are visible in that height if the page is scrolled up by `below` lines, and the numbers of lines
    /// above and below them. When scrolling up, hidden parts of the page appear first, then earlier output, then
    /// earlier steps.
    fn visible(
        self,
        height: usize,
        below: usize,
        d: &DrawContext<'_>,
    ) -> (Vec<(String, Style)>, (usize, usize)) {
        let Self { steps, current, output, verdict } = self;
        let room = height.saturating_sub(steps.len() + verdict.len() + 1);
        let shown = output.len().min(room.max(MIN_OUTPUT));
        let gap = usize::from(shown > 0);
        let kept = height.saturating_sub(verdict.len() + gap + shown).clamp(1, steps.len().max(1));
        let first = current.saturating_sub(kept).min(steps.len().saturating_sub(kept));
        let before = output.len().saturating_sub(shown);
        let over = (kept + gap + shown + verdict.len()).saturating_sub(height);
        let last = over + before + first;
        let below = below.min(last);
        let (up, rest) = (below.min(over), below.saturating_sub(over));
        let (back, rest) = (rest.min(before), rest.saturating_sub(before));
        let mut lines: Vec<(String, Style)> = steps.into_iter().skip(first - rest).take(kept).collect();
        lines.extend((gap > 0).then(|| (String::new(), d.theme.text)));
        let tail = output.iter().skip(before - back).take(shown);
        lines.extend(tail.map(|line| (format!("  {line}"), d.theme.dim)));
        lines.extend(verdict);
        (lines.into_iter().skip(over - up).collect(), (last - below, below))
    }
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
fn verdict(running: &OperationProgress, d: &DrawContext<'_>, at_length: bool) -> Vec<(String, Style)> {
    let (title, task) = (&running.operation.title, &running.operation.task);
    let mut lines: Vec<_> = at_length.then(|| (String::new(), d.theme.text)).into_iter().collect();
    match &running.state {
        OperationState::Running if running.may_be_cancelled() => {
            lines.extend(at_length.then(|| (CONTINUES.to_owned(), d.theme.dim)));
            let left = running.leftovers();
            let words = left.map_or("", CancelledState::text);
            let key = d.app.keymap().key_of(Action::Cancel);
            lines.push((format!("{key} cancels; {words}"), d.theme.text));
            let hint = left.map_or_else(Hint::none, |left| left.hint(task));
            if !hint.is_empty() {
                lines.push((format!("  {}", d.app.hint(&hint)), d.theme.dim));
            }
        }
        OperationState::Running => lines.push((CONTINUES.into(), d.theme.dim)),
        OperationState::Cancelling => lines.push(("cancelling".into(), d.theme.warn)),
        OperationState::Elsewhere => {
            let text = "running in another process on this machine; watch it there";
            lines.push((text.into(), d.theme.warn));
        }
        OperationState::Ended(Ending::Cancelled(left)) => {
            let hint = Hint::from(left.text()).and(left.hint(task));
            lines.push((format!("{title}: cancelled; {}", d.app.hint(&hint)), d.theme.good));
        }
        OperationState::Ended(over) => {
            lines.push((format!("{title}: {}", over.label()), d.theme.good));
            if let Some(missing) = &running.shortfall {
                lines.push((format!("✕ {}", missing.what), d.theme.bad));
                lines.push((format!("  {}", d.app.hint(&missing.hint)), d.theme.text));
            }
        }
        OperationState::Interrupted(problem, saved) => {
            lines.extend(interrupted(running, (problem.as_ref(), saved.as_deref()), d));
        }
    }
    lines
}

/// Why the operation was interrupted, where its jobs are saved, and the keys that end the interruption.
fn interrupted(
    running: &OperationProgress,
    (problem, saved): (Option<&Problem>, Option<&str>),
    d: &DrawContext<'_>,
) -> Vec<(String, Style)> {
    let mut lines = Vec::new();
    match problem {
        Some(problem) => {
            lines.push((format!("✕ {}", problem.what), d.theme.bad));
            if !problem.hint.is_empty() {
                lines.push((format!("  {}", d.app.hint(&problem.hint)), d.theme.text));
            }
        }
        None => lines.push(("✕ the process that ran this operation has exited".into(), d.theme.bad)),
    }
    lines.extend(saved.map(|saved| (format!("  jobs saved in {}", printable(saved)), d.theme.text)));
    if d.app.is_read_only() {
        let text = "read-only mode: resume it from a console without read-only mode";
        lines.push((text.into(), d.theme.text));
        return lines;
    }
    let key = |action| d.app.keymap().key_of(action);
    let past = if running.is_skippable() {
        format!("{} skips the failed step   ", key(Action::SkipStep))
    } else {
        String::new()
    };
    let (resume, leave) = (key(Action::Resume), key(Action::Abandon));
    lines.push((format!("{resume} resumes at this step   {past}{leave} abandons it"), d.theme.accent));
    lines
}
