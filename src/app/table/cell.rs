//! A cell of a table: text with a role. The theme maps roles to colors.

use crate::model::text::width;
use std::borrow::Cow;

/// The meaning of a text, which decides its style.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Ordinary text.
    #[default]
    Text,
    /// Less important, or out of date.
    Dim,
    /// The operator's position, and what is intentionally in progress.
    Accent,
    /// Working or successful.
    Good,
    /// Needs attention.
    Warn,
    /// Broken now; red in most themes.
    Bad,
    /// One of several items to be told apart by color, by its number below [`Role::HUES`].
    Hue(u8),
}

impl Role {
    /// How many items can be told apart by their color.
    pub const HUES: usize = 6;

    /// The role for data that may be out of date: dim if it is `stale`.
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
    /// Whether it covers the cells that follow, up to a column that is never omitted.
    pub spans: bool,
    /// Whether it starts in the empty cells before it, except for the first column's.
    pub leads: bool,
    /// Which part is kept when it is truncated.
    pub keeps: Keeps,
    /// Whether its row is marked by the operator.
    pub marks: bool,
}

/// Which part of a text is kept when it is truncated.
#[derive(Clone, Copy, Debug, Default)]
pub enum Keeps {
    /// Its beginning, for sentences.
    #[default]
    Beginning,
    /// Its end, for names that differ there: `t1v-n-1a2b3c4d-w-3`.
    End,
    /// Both, for ids that begin with their type and end with what makes them unique:
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

    /// Adds a shorter form.
    #[must_use]
    pub fn or(self, brief: impl Into<Cow<'a, str>>) -> Self {
        Self { brief: Some(brief.into()), ..self }
    }

    /// Adds a shorter form without thousands separators, because a truncated number is a different number.
    #[must_use]
    pub fn ungrouping(self) -> Self {
        match self.text.contains(',').then(|| self.text.replace(',', "")) {
            Some(brief) => self.or(brief),
            None => self,
        }
    }

    /// Truncates at the beginning.
    #[must_use]
    pub fn ending(self) -> Self {
        Self { keeps: Keeps::End, ..self }
    }

    /// Truncates in the middle.
    #[must_use]
    pub fn named(self) -> Self {
        Self { keeps: Keeps::Both, ..self }
    }

    /// Covers the rest of the row.
    #[must_use]
    pub fn spanning(self) -> Self {
        Self { spans: true, ..self }
    }

    /// Starts in the empty cells before it.
    #[must_use]
    pub fn leading(self) -> Self {
        Self { leads: true, ..self }
    }

    /// Screen columns that its shorter form takes; 0 if it has none.
    pub fn brief_width(&self) -> u16 {
        self.brief.as_ref().map_or(0, |brief| u16::try_from(width(brief)).unwrap_or(u16::MAX))
    }

    /// Screen columns that the full text takes; 0 if it spans other cells or is only a placeholder.
    pub fn width(&self) -> u16 {
        if self.spans || self.text == "-" { 0 } else { u16::try_from(width(&self.text)).unwrap_or(u16::MAX) }
    }
}
