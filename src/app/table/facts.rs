//! What cells depend on beside their row.

use crate::app::action::context::Context;
use crate::app::action::fixes::HintContext;
use crate::app::action::keymap::Keymap;
use crate::app::action::table::Action;
use crate::app::fleet::Fleet;
use crate::app::table::marks::Marks;
use crate::app::text::toast::Toasts;
use crate::model::{Hint, Timestamp};
use std::sync::LazyLock;
use std::time::Duration;

/// The fleet as it is looked at now.
#[derive(Clone, Copy, Debug)]
pub struct CellContext<'f> {
    /// All that is known.
    pub fleet: &'f Fleet,
    /// The marked jobs.
    pub marks: &'f Marks,
    /// The messages so far.
    pub messages: &'f Toasts,
    /// The keys in force.
    pub keymap: &'f Keymap,
    /// The ways to what hints say.
    pub ways: HintContext<'f>,
    /// The time of the frame.
    pub now: Timestamp,
    /// The age below which data is fresh.
    pub fresh: Duration,
    /// The version of all that cells are made of: while it is the same, only the cursor has moved. 0 when that is not known.
    pub version: u64,
}

impl<'f> CellContext<'f> {
    /// A look without keys, marks and messages: what rows say by themselves at that time.
    pub fn plain(fleet: &'f Fleet, now: Timestamp) -> Self {
        static NOTHING: LazyLock<(Keymap, Marks, Toasts)> = LazyLock::new(Default::default);
        let (keymap, marks, messages) = &*NOTHING;
        let ways = HintContext { keymap, read_only: true, page: Context::AllNodes };
        Self { fleet, marks, messages, keymap, ways, now, fresh: Duration::ZERO, version: 0 }
    }
}

impl CellContext<'_> {
    /// The first key of an action, as the screen shows it.
    pub fn key(&self, action: Action) -> String {
        self.keymap.keys_of(action).next().unwrap_or_default()
    }

    /// The hint as the page shows it.
    pub fn hint(&self, hint: &Hint) -> String {
        self.ways.hint(hint, Some(self.ways.page))
    }
}
