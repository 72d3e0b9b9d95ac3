//! Ignore patterns as in Ray's copy of Python's `pathspec` (`ray._private.thirdparty.pathspec`, pattern
//! `gitwildmatch`), which differs from git in details. A package's name is a hash of the remaining files, so every
//! detail matters.

use regex::Regex;

/// The patterns of one file or list; the last matching one decides.
#[derive(Debug, Default)]
pub(super) struct Patterns(Vec<(Regex, bool)>);

impl Patterns {
    /// Reads the lines of an ignore file. A pattern that Python would refuse is named in the error.
    pub fn new<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut patterns = Vec::new();
        for line in lines {
            let line = line.trim();
            if let Some((source, include)) = translated(line) {
                let regex = Regex::new(&source).map_err(|_| format!("invalid pattern `{line}`"))?;
                patterns.push((regex, include));
            }
        }
        Ok(Self(patterns))
    }

    /// Whether the path, relative to the directory of the patterns (`.` for itself), is excluded.
    pub fn leave_out(&self, path: &str) -> bool {
        let last = self.0.iter().rev().find(|(regex, _)| regex.is_match(path));
        last.is_some_and(|(_, include)| *include)
    }
}

/// The pattern as a regular expression, and whether it excludes (or includes again). `None` for comments.
fn translated(pattern: &str) -> Option<(String, bool)> {
    if pattern.is_empty() || pattern == "/" || pattern.starts_with('#') {
        return None;
    }
    let (pattern, leaves_out) = pattern.strip_prefix('!').map_or((pattern, true), |rest| (rest, false));
    let pattern = pattern.strip_prefix('\\').unwrap_or(pattern);
    let mut segments: Vec<&str> = pattern.split('/').collect();
    if segments[0].is_empty() && segments.len() > 1 {
        segments.remove(0);
    } else if (segments.len() == 1 || (segments.len() == 2 && segments[1].is_empty())) && segments[0] != "**"
    {
        segments.insert(0, "**");
    }
    if let [_, .., last @ ""] = &mut segments[..] {
        *last = "**";
    }
    Some((expression(&segments, leaves_out), leaves_out))
}

fn expression(segments: &[&str], leaves_out: bool) -> String {
    let end = segments.len() - 1;
    let mut out = String::from("^");
    let mut needs_slash = false;
    for (i, segment) in segments.iter().enumerate() {
        if *segment == "**" {
            let (text, slash) = match i {
                0 if end == 0 => (".+", needs_slash),
                0 => ("(?:.+/)?", false),
                _ if i == end => ("/.*", needs_slash),
                _ => ("(?:/.+)?", true),
            };
            out.push_str(text);
            needs_slash = slash;
            continue;
        }
        if needs_slash {
            out.push('/');
        }
        needs_slash = true;
        if *segment == "*" {
            out.push_str("[^/]+");
            continue;
        }
        glob(segment, &mut out);
        if i == end && leaves_out {
            out.push_str("(?:/.*)?");
        }
    }
    out.push('$');
    out
}

fn glob(segment: &str, out: &mut String) {
    let chars: Vec<char> = segment.chars().collect();
    let literal = |c: char, out: &mut String| out.push_str(&regex::escape(&c.to_string()));
    let mut i = 0;
    while i < chars.len() {
        let c = chars[i];
        i += 1;
        match c {
            '\\' => {
                if let Some(next) = chars.get(i) {
                    literal(*next, out);
                }
                i += 1;
            }
            '*' => out.push_str("[^/]*"),
            '?' => out.push_str("[^/]"),
            '[' => match closing(&chars, i) {
                Some(end) => {
                    class(&chars[i..end], out);
                    i = end + 1;
                }
                None => out.push_str("\\["),
            },
            c => literal(c, out),
        }
    }
}

/// Index of the end of the bracket expression that begins at `from`.
fn closing(chars: &[char], from: usize) -> Option<usize> {
    let mut at = from;
    if chars.get(at) == Some(&'!') {
        at += 1;
    }
    if chars.get(at) == Some(&']') {
        at += 1;
    }
    (at..chars.len()).find(|i| chars[*i] == ']')
}

/// A bracket expression: all literal but `-` between two characters and a leading `!`.
fn class(body: &[char], out: &mut String) {
    let (negated, body) = match body {
        ['!', rest @ ..] => (true, rest),
        all => (false, all),
    };
    out.push_str(if negated { "[^" } else { "[" });
    let mut i = 0;
    while i < body.len() {
        push_in_class(body[i], out);
        if let Some(['-', to]) = body.get(i + 1..i + 3) {
            out.push('-');
            push_in_class(*to, out);
            i += 3;
        } else {
            i += 1;
        }
    }
    out.push(']');
}

fn push_in_class(c: char, out: &mut String) {
    if c.is_ascii_punctuation() {
        out.push('\\');
    }
    out.push(c);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves_out(lines: &str, path: &str) -> bool {
        Patterns::new(lines.lines()).unwrap().leave_out(path)
    }

    #[test]
    fn patterns_mean_what_pathspec_means() {
        assert!(leaves_out("*.pyc", "a/b/x.pyc"));
        assert!(leaves_out("build", "build/x") && leaves_out("build", "a/build"));
        assert!(!leaves_out("/build", "a/build") && leaves_out("/build", "build/x"));
        // With a trailing slash, the directory's own entry is kept and its content is excluded.
        assert!(!leaves_out("build/", "build") && leaves_out("build/", "build/x"));
        assert!(leaves_out("a/**/z", "a/z") && leaves_out("a/**/z", "a/b/c/z"));
        assert!(!leaves_out("*.log\n!keep.log", "keep.log") && leaves_out("!keep.log\n*.log", "keep.log"));
        assert!(leaves_out("*", "."), "everything, the directory itself included");
        assert!(!leaves_out("# a", "# a") && leaves_out("\\# a", "# a") && !leaves_out("\n/\n", "x"));
    }

    #[test]
    fn brackets_are_literal_but_for_ranges() {
        assert!(leaves_out("[a-c]x", "bx") && !leaves_out("[!a-c]x", "bx") && leaves_out("[!a-c]x", "dx"));
        assert!(leaves_out("[]&&~[]x", "&x") && leaves_out("[^a]x", "ax") && leaves_out("[a-]x", "-x"));
        assert!(leaves_out("a[b", "a[b") && leaves_out("a?c", "abc") && !leaves_out("a?c", "a/c"));
        assert!(Patterns::new(["[z-a]"]).unwrap_err().contains("[z-a]"));
    }
}
