//! The style of each role of the screen.
//!
//! No colour stands in code: colours stand in themes (`assets/themes`, and the user's own files), and drawing asks for
//! a role. A role is a meaning: `bad` is broken now, `warn` needs a look, `good` is fine, `accent` is where you are.

mod contrast;
#[cfg(test)]
mod contrast_tests;
pub mod file;
mod look;
mod role;

use super::glyphs::Glyphs;
use crate::app::table::cell::Role as Meaning;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Style};
use role::Role;

/// How many colours the terminal has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colors {
    /// None (`NO_COLOR`): bold, dim and reverse only.
    #[default]
    None,
    /// The terminal's own sixteen.
    Sixteen,
    /// 16 million (24 bit).
    Full,
}

/// The style of each role, the background, and which glyphs are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Theme {
    /// Ordinary text.
    pub text: Style,
    /// Less important text, and stale data.
    pub dim: Style,
    /// Column titles.
    pub heading: Style,
    /// The one accent: where you are, keys, titles.
    pub accent: Style,
    /// Working or successful.
    pub good: Style,
    /// Needs a look.
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
    /// Text and background where nothing else says so; none leaves the terminal's own.
    canvas: Option<(Color, Color)>,
    /// Whether it is for a light background, also where that is the terminal's own.
    is_light: bool,
    /// The glyphs in use.
    pub glyphs: Glyphs,
    /// How many colours the terminal has.
    pub colors: Colors,
}

impl Theme {
    /// The same on the terminal's own background, for a theme that was picked to suit it.
    #[must_use]
    pub fn on_terminal(self) -> Self {
        Self { canvas: None, ..self }
    }

    /// The same with these glyphs.
    #[must_use]
    pub fn with(self, glyphs: Glyphs) -> Self {
        Self { glyphs, ..self }
    }

    fn of(colors: Colors, style: impl Fn(Role) -> Style, background: Option<Color>) -> Self {
        let text = style(Role::Text);
        Self {
            // Its colour is that of the canvas: text lies on selected rows, too.
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

    /// The style of a text's role.
    pub fn role(&self, role: Meaning) -> Style {
        match role {
            Meaning::Text => self.text,
            Meaning::Dim => self.dim,
            Meaning::Accent => self.accent,
            Meaning::Good => self.good,
            Meaning::Warn => self.warn,
            Meaning::Bad => self.bad,
            Meaning::Hue(n) => self.hue(n),
        }
    }

    /// A cell of a selected row: a state keeps its colour where that can be read on the selection's background.
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

    /// Gives the cells that were drawn without colours those of the theme.
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
