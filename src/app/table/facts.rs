//! What cells depend on besides their row.

use crate::app::action::context::Context;
use crate::app::action::fixes::HintContext;
use crate::app::action::keymap::Keymap;
use crate::app::fleet::Fleet;
use crate::app::table::marks::Marks;
use crate::app::text::toast::Toasts;
use crate::model::{Hint, Timestamp};
use std::sync::LazyLock;
use std::time::Duration;

/// What cells are rendered from: the fleet, the keymap and the time.
#[derive(Clone, Copy, Debug)]
pub struct CellContext<'f> {
    /// The data of all clusters.
    pub fleet: &'f Fleet,
    /// The marked jobs.
    pub marks: &'f Marks,
    /// The messages so far.
    pub messages: &'f Toasts,
    /// The keymap in effect.
    pub keymap: &'f Keymap,
    /// The context for the text of hints.
    pub hint_context: HintContext<'f>,
    /// The time of the frame.
    pub now: Timestamp,
    /// The age below which data is fresh.
    pub fresh: Duration,
    /// The version of all data that cells are made from: while it is unchanged, only the cursor has moved. 0 if
    /// unknown.
    pub version: u64,
}

impl<'f> CellContext<'f> {
    /// A context without keys, marks and messages: rows at time `now` on their own.
    pub fn plain(fleet: &'f Fleet, now: Timestamp) -> Self {
        static NOTHING: LazyLock<(Keymap, Marks, Toasts)> = LazyLock::new(Default::default);
        let (keymap, marks, messages) = &*NOTHING;
        let hint_context = HintContext { keymap, read_only: true, page: Context::AllNodes };
        Self { fleet, marks, messages, keymap, hint_context, now, fresh: Duration::ZERO, version: 0 }
    }
}

impl CellContext<'_> {
    /// The hint as the page shows it.
    pub fn hint(&self, hint: &Hint) -> String {
        self.hint_context.hint(hint, Some(self.hint_context.page))
    }
}
