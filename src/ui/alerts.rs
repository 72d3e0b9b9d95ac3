//! Findings in full: the issue, since when, the evidence and a hint.

use super::grid::cut;
use super::part::DrawContext;
use super::sentence::wrap;
use crate::app::text::labels;
use crate::diagnose::Finding;
use crate::model::ClusterName;
use ratatui::style::{Modifier, Style};

/// The findings as lines of this width, each followed by a blank line; dimmed if they are out of date. If there is room
/// for only that many `rows`, the evidence of the finding that does not fit is cut, so that its hint is visible.
/// `others` describes which other clusters have the same.
pub fn lines<'a>(
    findings: impl Iterator<Item = &'a Finding>,
    d: &DrawContext<'_>,
    (width, rows): (usize, Option<usize>),
    stale: bool,
    others: impl Fn(&Finding) -> Vec<&'a ClusterName>,
) -> Vec<(String, Style)> {
    let mut lines = Vec::new();
    let text = if stale { d.theme.dim } else { d.theme.text };
    for finding in findings {
        let (glyph, role) = labels::severity_mark(finding.severity);
        let tone = if stale { d.theme.dim } else { d.theme.role(role) };
        let since = finding
            .age(d.now)
            .map_or_else(String::new, |age| format!(" {}", finding.when(&labels::minutes(age))));
        let also = match others(finding) {
            others if others.is_empty() => String::new(),
            others => format!(", also {}", labels::named(&others)),
        };
        let head = format!("{glyph} {}{since}{also}", finding.label());
        lines.push((head, tone.add_modifier(Modifier::BOLD)));
        let wrapped =
            |words: &str| if words.is_empty() { Vec::new() } else { wrap(&format!("  {words}"), width) };
        let (mut evidence, hint) = (wrapped(&finding.long), wrapped(&d.app.hint(&finding.hint)));
        let room = rows.map_or(usize::MAX, |rows| rows.saturating_sub(lines.len() + hint.len()));
        if evidence.len() > room {
            evidence.truncate(room);
            if let Some(last) = evidence.last_mut() {
                *last = cut(&format!("{last}…"), width).into_owned();
            }
        }
        lines.extend(evidence.into_iter().map(|line| (line, text)));
        lines.extend(hint.into_iter().map(|line| (line, d.theme.dim)));
        lines.push((String::new(), text));
    }
    lines
}
