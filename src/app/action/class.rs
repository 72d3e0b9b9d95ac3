//! How far an action or an effect reaches. What may be refused, and what must be confirmed, follows from it.

/// The most that an action can lead to, or an effect do. Each row of the table of actions names it, read-only mode is
/// derived from it, and effects of the last two leave the console only through a dialog ([`crate::app::App::act`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Changes only what is on the screen.
    View,
    /// Reads from a cluster, copies or opens a connection; or confirms a question whose own action was checked before.
    Reads,
    /// Changes a cluster, its machines or its records.
    Changes,
    /// May end jobs.
    Ends,
}
