//! The names of man pages.

/// The name of a manual page's man page, without its section.
pub(in crate::cli) fn page_name(topic: &str) -> String {
    format!("marin-tui-{topic}")
}

/// Name and version, for the footer of a page.
pub(in crate::cli) fn source() -> String {
    format!("marin-tui {}", env!("CARGO_PKG_VERSION"))
}
