//! Findings in full: the issue, since when, the evidence and a hint.

use super::part::DrawContext;
use super::sentence::wrap;
use crate::app::text::labels;
use crate::diagnose::Finding;
use crate::model::ClusterName;
use ratatui::style::{Modifier, Style};

/// Which part of a finding follows its first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The evidence, then the hint.
    EvidenceFirst,
    /// The hint, then the evidence: for places in which not all of it may fit.
    HintFirst,
}

/// The findings as lines of this width, each followed by a blank line; dimmed if they are out of date. `others`
/// describes which other clusters have the same.
pub fn lines<'a>(
    findings: impl Iterator<Item = &'a Finding>,
    d: &DrawContext<'_>,
    (width, order): (usize, Order),
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
        let mut parts = [(&finding.long, text), (&d.app.hint(&finding.hint), d.theme.dim)];
        if order == Order::HintFirst {
            parts.reverse();
        }
        for (words, style) in parts {
            if !words.is_empty() {
                lines.extend(wrap(&format!("  {words}"), width).into_iter().map(|line| (line, style)));
            }
        }
        lines.push((String::new(), text));
    }
    lines
}
