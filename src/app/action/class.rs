//! The scope of an action or an effect, which decides what may be refused and what must be confirmed.

/// The most severe outcome of an action or an effect. Each row of the table of actions names it, read-only mode is
/// derived from it, and effects of the last two classes leave the console only through a dialog
/// ([`crate::app::App::act`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Changes only what is on the screen.
    View,
    /// Reads from a cluster, copies or opens a connection; or confirms a question whose action was already checked.
    Reads,
    /// Changes a cluster, its machines or its records.
    Changes,
    /// May end jobs.
    Ends,
}
