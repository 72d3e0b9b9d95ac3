//! The style of each role of the screen.
//!
//! Code contains no colors: themes define them (`assets/themes`, and the user's own files), and drawing uses roles. A
//! role is a meaning: `bad` is broken now, `warn` needs attention, `good` is fine, `accent` is the current position.

mod contrast;
#[cfg(test)]
mod contrast_tests;
pub mod file;
mod role;
mod text_style;

use super::glyphs::Glyphs;
use crate::app::table::cell::Role as Meaning;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Style};
use role::Role;

/// The colors that the terminal supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colors {
    /// None (`NO_COLOR`): bold, dim and reverse only.
    #[default]
    None,
    /// The sixteen colors of the terminal.
    Sixteen,
    /// 16 million (24 bit).
    Full,
}

/// The style of each role, the background, and the glyphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Theme {
    /// Ordinary text.
    pub text: Style,
    /// Less important text, and stale data.
    pub dim: Style,
    /// Column titles.
    pub heading: Style,
    /// The accent: the current position, keys, titles.
    pub accent: Style,
    /// Working or successful.
    pub good: Style,
    /// Needs attention.
    pub warn: Style,
    /// Broken or failed now.
    pub bad: Style,
    /// A pane's border.
    pub border: Style,
    /// The focused pane's border.
    pub focused: Style,
    /// The selected row of the focused table.
    pub selected: Style,
    /// The selected row of another table.
    pub marked: Style,
    /// A match of the search.
    pub found: Style,
    /// The current match of the search.
    pub found_here: Style,
    /// Default text and background; `None` for those of the terminal.
    canvas: Option<(Color, Color)>,
    /// Whether it is for a light background, including that of the terminal.
    is_light: bool,
    /// The glyphs in use.
    pub glyphs: Glyphs,
    /// The colors that the terminal supports.
    pub colors: Colors,
}

impl Theme {
    /// The same theme on the terminal's background, for a theme that was chosen to suit it.
    #[must_use]
    pub fn on_terminal(self) -> Self {
        Self { canvas: None, ..self }
    }

    /// The same theme with these glyphs.
    #[must_use]
    pub fn with(self, glyphs: Glyphs) -> Self {
        Self { glyphs, ..self }
    }

    fn of(colors: Colors, style: impl Fn(Role) -> Style, background: Option<Color>) -> Self {
        let text = style(Role::Text);
        Self {
            // The canvas defines its color, because text is also drawn on selected rows.
            text: Style { fg: None, ..text },
            dim: style(Role::Dim),
            heading: style(Role::Heading),
            accent: style(Role::Accent),
            good: style(Role::Good),
            warn: style(Role::Warn),
            bad: style(Role::Bad),
            border: style(Role::Border),
            focused: style(Role::Focused),
            selected: style(Role::Selected),
            marked: style(Role::Marked),
            found: style(Role::Found),
            found_here: style(Role::FoundHere),
            canvas: text.fg.zip(background),
            is_light: false,
            glyphs: Glyphs::default(),
            colors,
        }
    }

    /// The style of a text with this role.
    pub fn role(&self, role: Meaning) -> Style {
        match role {
            Meaning::Text => self.text,
            Meaning::Dim => self.dim,
            Meaning::Accent => self.accent,
            Meaning::Good => self.good,
            Meaning::Warn => self.warn,
            Meaning::Bad => self.bad,
            Meaning::Hue(n) => self.hue(usize::from(n)),
        }
    }

    /// The style of a cell in a selected row: a state keeps its color if it is readable on the background of the
    /// selection.
    pub fn selected_cell(&self, role: Meaning, selected: Style) -> Style {
        let own = self.role(role);
        let state = own.fg.filter(|_| !matches!(role, Meaning::Text | Meaning::Dim));
        let is_clear = |(ink, ground)| contrast::of(ink, ground).is_some_and(|ratio| ratio >= 3.0);
        match selected.fg {
            None => own.patch(selected),
            Some(_) => match state.zip(selected.bg).filter(|pair| is_clear(*pair)) {
                Some((ink, _)) => Style { fg: Some(ink), ..selected },
                None => selected,
            },
        }
    }

    /// Applies the colors of the theme to cells that were drawn without any.
    pub(super) fn fill(&self, buf: &mut Buffer) {
        let Some((text, background)) = self.canvas else { return };
        for cell in &mut buf.content {
            if cell.fg == Color::Reset {
                cell.fg = text;
            }
            if cell.bg == Color::Reset {
                cell.bg = background;
            }
        }
    }
}
