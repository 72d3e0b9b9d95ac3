//! Finds the line of a key in a YAML text; the YAML library does not keep lines after parsing.

/// The line (from 1) of the key at `path` in block style; the line of the nearest parent when the key is inside `{...}`
/// or comes from an anchor; `None` when the first key does not exist.
pub fn line_of(text: &str, path: &[&str]) -> Option<usize> {
    block_of(text, path).last().copied()
}

/// Whether every key of the path has a line of its own.
pub fn is_block(text: &str, path: &[&str]) -> bool {
    block_of(text, path).len() == path.len()
}

/// The line of each key of the path, up to the first key without a line of its own.
fn block_of(text: &str, path: &[&str]) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut from = 0;
    let mut parent: Option<usize> = None;
    for key in path {
        // Children are the lines that are indented more than the parent, all by the same width.
        let mut width = None;
        let mut at = None;
        for (i, line) in lines.iter().enumerate().skip(from) {
            let body = line.trim_start_matches(' ');
            if body.trim().is_empty() || body.starts_with('#') {
                continue;
            }
            let indent = line.len() - body.len();
            if parent.is_some_and(|p| indent <= p) {
                break;
            }
            let width = *width.get_or_insert(indent);
            if indent == width && key_of(body) == Some(key) {
                at = Some((i, indent));
                break;
            }
        }
        let Some((line, indent)) = at else { break };
        found.push(line + 1);
        (from, parent) = (line + 1, Some(indent));
    }
    found
}

/// The key at the beginning of a line in block style.
pub(super) fn key_of(body: &str) -> Option<&str> {
    let (key, rest) = body.split_once(':')?;
    let key = key.trim_end().trim_matches(|c| c == '"' || c == '\'');
    (rest.is_empty() || rest.starts_with([' ', '\t', '\r'])).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# x\na: 1\nb:\n  # c: 0\n  c:\n    a: 2\n  \"d\": {e: 3}\nc: 4\n";

    #[test]
    fn keys_are_found_on_their_lines() {
        assert_eq!(line_of(TEXT, &["a"]), Some(2));
        assert_eq!(line_of(TEXT, &["b", "c", "a"]), Some(6));
        assert_eq!(line_of(TEXT, &["c"]), Some(8));
        assert_eq!(line_of(TEXT, &["b", "d", "e"]), Some(7), "inside braces: the parent");
        assert!(is_block(TEXT, &["b", "c", "a"]) && !is_block(TEXT, &["b", "d", "e"]));
        assert_eq!(line_of(TEXT, &["a", "c"]), Some(2), "the next section's keys are not its own");
        assert_eq!(line_of(TEXT, &["z"]), None);
    }
}
