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
