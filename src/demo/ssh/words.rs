//! Splits a command line into words as a POSIX shell does: with quotes and backslashes, without variables and pipes.

/// Returns the words, or an error if the line needs shell features that a simulated head lacks.
pub(super) fn split(line: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut left = line.chars();
    while let Some(c) = left.next() {
        match c {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\'' | '"' => quoted(c, &mut left, word.get_or_insert_default())?,
            '\\' => word.get_or_insert_default().extend(left.next()),
            '<' => {
                words.extend(word.take());
                words.push("<".into());
            }
            '|' | '&' | ';' | '>' | '(' | ')' | '$' | '`' => {
                return Err("this head is simulated: only single commands, without pipes and variables");
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Takes the text up to the closing quote.
fn quoted(quote: char, left: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), &'static str> {
    loop {
        match left.next() {
            None => return Err("syntax error: unterminated quoted string"),
            Some(c) if c == quote => return Ok(()),
            Some('\\') if quote == '"' => word.extend(left.next()),
            Some(c) => word.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::split;
    use proptest::prelude::*;

    #[test]
    fn words_quotes_and_unsupported_syntax() {
        let words = |line: &str| split(line).map(|w| w.join("|"));
        assert_eq!(words(r#" a 'b c'  "d\"e" f\ g ''"#), Ok(r#"a|b c|d"e|f g|"#.into()));
        assert_eq!(words(r"'it'\''s'"), Ok("it's".into()));
        assert_eq!(words("wc -c <file"), Ok("wc|-c|<|file".into()));
        assert!(words("'open").is_err() && words("a | b").is_err() && words("echo $HOME").is_err());
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "[a-z'\"\\\\|<; ]{0,40}") {
            let _ = split(&line);
        }
    }
}
