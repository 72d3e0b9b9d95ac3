//! Names and addresses of machines, checked before they go to ssh or into a URL.
//!
//! [`HostName`] is the only type that ssh and the connection code take, so an unchecked host cannot reach a
//! command line. Text from files, Google, Ray and users is converted only by [`HostName::parse`].

use super::userinfo::shown_address;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// Longest host name in characters (RFC 1123, section 2.1).
const LONGEST_NAME: usize = 253;
/// Longest label of a host name in characters (RFC 1123, section 2.1).
const LONGEST_LABEL: usize = 63;

/// An IP address, a host name (RFC 1123) or an ssh alias of the same form; `_` is allowed because aliases may contain
/// it. It contains no user, port, option or blank, and no characters that are special in a shell or a URL.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(Arc<str>);

/// Why a text is not a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a host: {why}", shown_address(.text))]
pub struct NotAHost {
    /// The text that was refused.
    pub text: String,
    /// What is wrong with it, and what to write instead.
    pub why: &'static str,
}

impl HostName {
    /// Parses a host. IPv6 addresses are written without brackets and without a zone.
    ///
    /// # Errors
    ///
    /// [`NotAHost`] describes what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, NotAHost> {
        match fault(text) {
            None => Ok(Self(text.into())),
            Some(why) => Err(NotAHost { text: text.to_owned(), why }),
        }
    }

    /// The host as passed to ssh.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Formats the host for a URL: an IPv6 address is put in brackets (RFC 3986, section 3.2.2).
    pub fn in_url(&self) -> String {
        if self.0.contains(':') { format!("[{}]", self.0) } else { self.0.to_string() }
    }
}

/// Why a text is not a host; none if it is one.
fn fault(text: &str) -> Option<&'static str> {
    if text.parse::<IpAddr>().is_ok() {
        return None;
    }
    if text.is_empty() {
        return Some("it is empty; use a host name or an IP address");
    }
    if text.starts_with('-') {
        return Some("ssh would read it as an option; use a host name or an IP address");
    }
    if text.contains("://") {
        return Some("it is a URL; use only its host name or IP address");
    }
    if text.contains('@') {
        return Some("it contains a user; use only the host, and set the user as `ssh_user` or `user`");
    }
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if text.contains(':') && text.bytes().all(|b| is_allowed(b) || matches!(b, b':' | b'[' | b']')) {
        return Some("it is not an IPv6 address; use the host without port and brackets");
    }
    if !text.bytes().all(is_allowed) {
        return Some("use only letters, digits, `-`, `_` and `.`");
    }
    // A trailing dot marks a name as complete (RFC 1034, section 3.1).
    let name = text.strip_suffix('.').unwrap_or(text);
    if name.len() > LONGEST_NAME {
        return Some("it is longer than 253 characters");
    }
    let is_label =
        |l: &str| (1..=LONGEST_LABEL).contains(&l.len()) && !l.starts_with('-') && !l.ends_with('-');
    if !name.split('.').all(is_label) {
        return Some("parts between dots must have 1 to 63 characters and no `-` at either end");
    }
    // The resolver parses `10.0.0.256` and `0x7f.1` as numbers, which may give a different address than expected.
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|b| b.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
    is_number.then_some("it ends in a number and is not an IP address")
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl PartialEq<str> for HostName {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl<'de> Deserialize<'de> for HostName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// Parses the part between `://` and the path of a URL, or an address as `HOST:PORT`: a host, an IPv6 address in
/// brackets, and an optional port. A user, which a URL may contain, is refused.
pub fn authority(text: &str) -> Result<(HostName, Option<u16>), NotAHost> {
    let refused = |why| NotAHost { text: text.to_owned(), why };
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(|| refused("missing closing bracket"))?;
            host.parse::<Ipv6Addr>().map_err(|_| refused("only an IPv6 address may be in brackets"))?;
            (host, port.strip_prefix(':').or((!port.is_empty()).then_some("")))
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let host = HostName::parse(host).map_err(|e| refused(e.why))?;
    let number = |p: &str| p.parse().ok().filter(|n| *n > 0 && p.bytes().all(|b| b.is_ascii_digit()));
    let port = port.map(|p| number(p).ok_or_else(|| refused("the port is not a number from 1 to 65535")));
    Ok((host, port.transpose()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn passwords_in_refused_addresses_are_masked() {
        for text in ["me:hunter2@h", "http://me:hunter2@h:8265", "me:hunter2@h:80"] {
            let errors = [HostName::parse(text).unwrap_err(), authority(text).unwrap_err()];
            for message in errors.map(|e| e.to_string()) {
                assert!(message.contains("me:***@h") && !message.contains("hunter2"), "{message}");
            }
        }
    }

    #[test]
    fn addresses_names_and_aliases_are_hosts() {
        let longest = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61));
        for good in [
            "10.0.0.7",
            "fd00::7",
            "::1",
            "host-7.lab",
            "worker_1",
            "h",
            "my_alias",
            "xn--bcher-kva.example",
            "host.lab.",
            "7.lab",
            "1a",
            &longest,
        ] {
            assert!(HostName::parse(good).is_ok(), "{good}");
        }
        assert_eq!(HostName::parse("fd00::7").unwrap().in_url(), "[fd00::7]");
        assert_eq!(HostName::parse("h").unwrap().in_url(), "h");
    }

    #[test]
    fn everything_else_is_refused_with_a_reason() {
        let long = "a".repeat(64);
        for (bad, why) in [
            ("", "empty"),
            ("-oProxyCommand=x", "as an option"),
            ("ssh://u@evil", "URL"),
            ("u@evil", "user"),
            ("host:22", "port"),
            ("[::1]", "brackets"),
            ("fe80::1%eth0", "letters, digits"),
            ("host;rm", "letters, digits"),
            ("a b", "letters, digits"),
            ("a\nb", "letters, digits"),
            ("a\u{1b}[2J", "letters, digits"),
            ("$(id)", "letters, digits"),
            ("höst", "letters, digits"),
            ("%h", "letters, digits"),
            ("a/../b", "letters, digits"),
            ("a..b", "between dots"),
            ("a.-b", "between dots"),
            (&long, "between dots"),
            ("10.0.0.256", "ends in a number"),
            ("0x7f.0x1", "ends in a number"),
            ("2130706433", "ends in a number"),
        ] {
            let e = HostName::parse(bad).unwrap_err();
            assert!(e.why.contains(why), "{bad:?}: {e}");
            assert!(!e.to_string().contains(['\n', '\u{1b}']), "{e}");
        }
    }

    #[test]
    fn an_authority_has_a_host_and_perhaps_a_port() {
        let read = |text: &str| authority(text).map(|(host, port)| (host.to_string(), port)).ok();
        assert_eq!(read("h:8265"), Some(("h".into(), Some(8265))));
        assert_eq!(read("h"), Some(("h".into(), None)));
        assert_eq!(read("[::1]:8265"), Some(("::1".into(), Some(8265))));
        assert_eq!(read("[::1]"), Some(("::1".into(), None)));
        for bad in
            ["", ":1", "h:", "h:0", "h:+1", "h:99999", "u@h:1", "[h]:1", "[::1", "[::1]x", "::1", "h:1:2"]
        {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    proptest! {
        /// An accepted host is one word for a shell, not an option, and the host of a URL that contains it.
        #[test]
        fn accepted_hosts_are_harmless(text in "[a-z0-9.:@/%;_\\-\\[\\] \\$\n]{0,24}") {
            if let Ok(host) = HostName::parse(&text) {
                prop_assert!(!host.as_str().starts_with('-'));
                prop_assert!(host.as_str().bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(&b)));
                let url = format!("http://{}:1/", host.in_url());
                let url: http::Uri = url.parse().unwrap();
                prop_assert_eq!(url.host(), Some(&*host.in_url()));
            }
        }
    }
}
