//! Users and passwords in URLs (`https://USER:PASSWORD@HOST`; RFC 3986, section 3.2.1), which must be masked like other
//! secrets.

use super::text::printable;
use std::borrow::Cow;
use std::ops::Range;

/// Characters that end a URL in a text.
const ENDS: [char; 6] = ['"', '\'', '`', '<', '>', '\\'];
/// Minimum length of a user without a password that counts as a token: GitHub and others accept a token as the user.
const MIN_TOKEN: usize = 20;

/// The byte ranges of secrets in the URLs of a text: passwords, and tokens in place of the user.
pub(super) fn passwords(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (at, separator) in text.match_indices("://") {
        let start = at + separator.len();
        let rest = &text[start..];
        let url = rest.split(|c: char| c.is_whitespace() || ENDS.contains(&c)).next().unwrap_or_default();
        let authority = url.split(['/', '?', '#']).next().unwrap_or_default();
        // An unencoded password may contain a slash; after a host, `:` is followed by a port number.
        let is_port = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
        let is_cut =
            authority.rsplit_once(':').is_some_and(|(_, port)| !is_port(port) && !port.contains(']'));
        let within = if authority.contains('@') || !is_cut { authority } else { url };
        let Some(end) = within.rfind('@') else { continue };
        let user = &within[..end];
        match user.split_once(':') {
            Some((name, password)) if !password.is_empty() => {
                found.push(start + name.len() + 1..start + end);
            }
            None if user.len() >= MIN_TOKEN => found.push(start..start + end),
            _ => {}
        }
    }
    found
}

/// The text with `***` in place of the secrets in its URLs.
pub fn without_passwords(text: &str) -> Cow<'_, str> {
    let found = passwords(text);
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut shown, mut at) = (String::with_capacity(text.len()), 0);
    for password in found.iter().filter(|p| !p.is_empty()) {
        // A URL inside a password was masked with the password.
        if password.start < at {
            continue;
        }
        shown.push_str(&text[at..password.start]);
        shown.push_str("***");
        at = password.end;
    }
    shown.push_str(&text[at..]);
    Cow::Owned(shown)
}

/// A refused address for display in a message: safe to print and without a password, even if it has no scheme such as
/// `http://`.
pub fn shown_address(text: &str) -> String {
    let url = if text.contains("://") { text.to_owned() } else { format!("://{text}") };
    let shown = without_passwords(&url);
    printable(if text.contains("://") { &shown } else { &shown["://".len()..] }).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn passwords_are_masked_and_nothing_else_is() {
        for (text, shown) in [
            ("GET http://me:hunter2@h:8265/api failed", "GET http://me:***@h:8265/api failed"),
            ("`https://a:b@h` and https://c:d@e/", "`https://a:***@h` and https://c:***@e/"),
            ("http://me:pa/ss@h/x", "http://me:***@h/x"),
            ("http://me:p@ss@h/x", "http://me:***@h/x"),
            ("https://ghp_0123456789abcdef0123@github.com/o/r", "https://***@github.com/o/r"),
            ("http://:pw@h", "http://:***@h"),
        ] {
            assert_eq!(without_passwords(text), shown);
        }
        for text in [
            "http://h:8265/a@b",
            "ssh://ray@host",
            "https://h/x?mail=a:b@c",
            "http://[::1]:8265/@",
            "a:b@c",
            "gs://bucket/a:b",
            "http://u:@h",
        ] {
            assert!(matches!(without_passwords(text), Cow::Borrowed(_)), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_password_is_masked(user in "[a-z]{0,5}", password in "[a-z0-9@:%]{1,12}", text in "[a-z /:@?]{0,20}") {
            let shown = without_passwords(&format!("{text} https://{user}:=={password}==@host/ {text}")).into_owned();
            prop_assert!(!shown.contains(&format!("=={password}==")), "{}", shown);
        }
    }
}
