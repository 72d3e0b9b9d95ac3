//! The class of an action or an effect, by the most severe thing that it can do.

/// The most severe thing that an action or an effect can do. Each row of the table of actions names it; read-only mode
/// refuses actions by it; and effects of the last two classes leave the console only through a dialog
/// ([`crate::app::App::act`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Impact {
    /// Changes only what is on the screen.
    View,
    /// Reads from a cluster, copies or opens a connection; or confirms a question whose action was already checked.
    Reads,
    /// Changes a cluster, its machines or its records.
    Changes,
    /// May end jobs.
    Ends,
}
