//! Text for the screen: lines that fit.

use super::grid::cut;
use unicode_width::UnicodeWidthStr;

/// Wraps text into lines of that width.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let indent = text.len() - text.trim_start().len();
    for word in text.split(' ') {
        let line = lines.last().map_or(0, |l| l.width());
        if line > 0 && line + 1 + word.width() > width {
            // A second blank between words does not start a line.
            if word.is_empty() {
                continue;
            }
            lines.push(" ".repeat(indent));
        }
        let Some(line) = lines.last_mut() else { break };
        if !line.is_empty() && !line.ends_with(' ') {
            line.push(' ');
        }
        line.push_str(word);
        if word.is_empty() {
            line.push(' ');
        }
        // A word longer than a line is split.
        while lines.last().is_some_and(|l| l.width() > width) && width > 1 {
            let Some(long) = lines.pop() else { break };
            let kept = cut(&long, width).trim_end_matches('…').len();
            lines.push(long[..kept].to_owned());
            lines.push(long[kept..].to_owned());
            if kept == 0 {
                return lines;
            }
        }
    }
    lines
}

/// Labels beside texts, long texts over several lines. A text that has no label, nor goes on from one that has,
/// takes the whole width, and so does a label that is longer than its column. The width of the labels comes with them.
pub fn lay_out(rows: &[(String, String)], width: usize) -> (Vec<(String, String)>, usize) {
    let beside = rows.iter().filter(|(_, text)| !text.is_empty()).map(|(label, _)| label.width());
    let label = beside.max().unwrap_or(0).min(width / 3);
    let indent = if label > 0 { label + 2 } else { 0 };
    let mut lines = Vec::with_capacity(rows.len());
    for (name, text) in rows {
        if name.is_empty() {
            lines.extend(wrap(text, width.max(1)).into_iter().map(|line| (String::new(), line)));
            continue;
        }
        let is_long = name.width() > label;
        if is_long {
            lines.extend(wrap(name, width.max(1)).into_iter().map(|line| (line, String::new())));
        }
        if is_long && text.is_empty() {
            continue;
        }
        for (i, line) in wrap(text, width.saturating_sub(indent).max(1)).into_iter().enumerate() {
            let first = i == 0 && !is_long;
            let line = if first { line } else { format!("{}{line}", " ".repeat(indent)) };
            lines.push((if first { name.clone() } else { String::new() }, line));
        }
    }
    (lines, label)
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn a_line_that_goes_on_begins_where_the_first_does() {
        assert_eq!(wrap("opens it  (open)", 8), ["opens it", "(open)"]);
        assert_eq!(wrap("opens it  (open)", 10), ["opens it  ", "(open)"]);
        assert_eq!(wrap("  the hint of it", 10), ["  the hint", "  of it"]);
    }
}
