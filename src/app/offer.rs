//! What the palette lists.

/// A command that the palette offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The command, as it can be typed.
    pub words: String,
    /// Which characters of it match what is typed.
    pub hits: Vec<usize>,
    /// What it does, in one line.
    pub help: String,
    /// Its first key; empty if it has none.
    pub key: String,
    /// Whether it can be run now.
    pub is_here: bool,
}
