//! What a table shows in one place: text with a role. The theme turns roles into colours.

use crate::model::text::width;
use std::borrow::Cow;

/// What a text means to the eye.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Ordinary text.
    #[default]
    Text,
    /// Less important, or out of date.
    Dim,
    /// Where the operator is, and what is in progress on purpose.
    Accent,
    /// Working or successful.
    Good,
    /// Needs a look.
    Warn,
    /// Broken now; red in most themes.
    Bad,
    /// Of one of several that are to be distinguished, by its number below [`Role::HUES`].
    Hue(u8),
}

impl Role {
    /// How many can be distinguished by their colour.
    pub const HUES: usize = 6;

    /// The role in data that is out of date: only dim.
    #[must_use]
    pub fn unless(self, stale: bool) -> Self {
        if stale { Self::Dim } else { self }
    }
}

/// A cell of a table.
#[derive(Clone, Debug, Default)]
pub struct Cell<'a> {
    /// The text, safe to print.
    pub text: Cow<'a, str>,
    /// A shorter form, for a column that has no room for the texts of all its rows.
    pub brief: Option<Cow<'a, str>>,
    /// The role of the text.
    pub role: Role,
    /// Whether it takes the place of the cells that follow, up to a column that is never left out.
    pub spans: bool,
    /// Whether it begins in the empty cells before it, but for the first column's.
    pub leads: bool,
    /// What stays when it is cut.
    pub keeps: Keeps,
    /// Whether its row is marked by the operator.
    pub marks: bool,
}

/// What stays of a text that is cut.
#[derive(Clone, Copy, Debug, Default)]
pub enum Keeps {
    /// Its beginning, as of a sentence.
    #[default]
    Beginning,
    /// Its end, as of names that differ there: `t1v-n-1a2b3c4d-w-3`.
    End,
    /// Both, as of ids that begin with what they are and end with what makes them one of many:
    /// `ray-run-alice-exp1395_qwen3-4f1c`.
    Both,
}

impl<'a> Cell<'a> {
    /// Text that is safe to print.
    pub fn new(text: impl Into<Cow<'a, str>>, role: Role) -> Self {
        Self { text: text.into(), role, ..Self::default() }
    }

    /// Ordinary text.
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::new(text, Role::Text)
    }

    /// The same with a shorter form.
    #[must_use]
    pub fn or(self, brief: impl Into<Cow<'a, str>>) -> Self {
        Self { brief: Some(brief.into()), ..self }
    }

    /// Numbers, without the marks between thousands where there is no room: one that is cut is another number.
    #[must_use]
    pub fn ungrouping(self) -> Self {
        match self.text.contains(',').then(|| self.text.replace(',', "")) {
            Some(brief) => self.or(brief),
            None => self,
        }
    }

    /// The same, cut at its beginning.
    #[must_use]
    pub fn ending(self) -> Self {
        Self { keeps: Keeps::End, ..self }
    }

    /// The same, cut in its middle.
    #[must_use]
    pub fn named(self) -> Self {
        Self { keeps: Keeps::Both, ..self }
    }

    /// The same over the rest of the row.
    #[must_use]
    pub fn spanning(self) -> Self {
        Self { spans: true, ..self }
    }

    /// The same from the empty cells before it on.
    #[must_use]
    pub fn leading(self) -> Self {
        Self { leads: true, ..self }
    }

    /// Cells of the screen that its shorter form takes; none where it has no such.
    pub fn brief_width(&self) -> u16 {
        self.brief.as_ref().map_or(0, |brief| u16::try_from(width(brief)).unwrap_or(u16::MAX))
    }

    /// Cells of the screen that the whole text takes; none where it stands for nothing.
    pub fn width(&self) -> u16 {
        if self.spans || self.text == "-" { 0 } else { u16::try_from(width(&self.text)).unwrap_or(u16::MAX) }
    }
}
