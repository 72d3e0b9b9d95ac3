//! Colours by role. The only place that names one.

use crate::app::cell::Role;
use ratatui::style::{Color, Modifier, Style};

/// How many colours the terminal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colors {
    /// None (`NO_COLOR`): bold, dim and reverse only.
    None,
    /// The terminal's own sixteen.
    Sixteen,
    /// 16 million (24 bit).
    Full,
}

/// The style of each role.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    /// Ordinary text.
    pub text: Style,
    /// Less important text, and stale data.
    pub dim: Style,
    /// The one accent: focus, keys, titles.
    pub accent: Style,
    /// Working or successful.
    pub good: Style,
    /// In progress, or doubtful.
    pub warn: Style,
    /// Broken or failed.
    pub bad: Style,
    /// Column titles.
    pub heading: Style,
    /// The selected row of the focused table.
    pub selected: Style,
    /// The selected row of another table.
    pub marked: Style,
    /// A pane's border.
    pub border: Style,
    /// The focused pane's border.
    pub focused: Style,
    /// A match of the search.
    pub found: Style,
    /// The current match of the search.
    pub found_here: Style,
}

impl Theme {
    /// The theme for so many colours.
    pub fn new(colors: Colors) -> Self {
        match colors {
            Colors::None => Self::without_colors(),
            Colors::Sixteen => Self::with(&Palette {
                dim: Color::DarkGray,
                accent: Color::Cyan,
                good: Color::Green,
                warn: Color::Yellow,
                bad: Color::Red,
                border: Color::DarkGray,
                selected: Color::Blue,
                on_selected: Color::White,
            }),
            Colors::Full => Self::with(&Palette {
                dim: Color::Rgb(0x7a, 0x84, 0x94),
                accent: Color::Rgb(0x5f, 0xb3, 0xe0),
                good: Color::Rgb(0x7e, 0xc6, 0x8c),
                warn: Color::Rgb(0xe0, 0xb4, 0x5c),
                bad: Color::Rgb(0xe8, 0x6e, 0x6e),
                border: Color::Rgb(0x4a, 0x52, 0x60),
                selected: Color::Rgb(0x2c, 0x3e, 0x55),
                on_selected: Color::Rgb(0xf0, 0xf4, 0xf8),
            }),
        }
    }

    /// The style of a text's role.
    pub fn role(&self, role: Role) -> Style {
        match role {
            Role::Text => self.text,
            Role::Dim => self.dim,
            Role::Accent => self.accent,
            Role::Good => self.good,
            Role::Warn => self.warn,
            Role::Bad => self.bad,
        }
    }

    fn with(p: &Palette) -> Self {
        let fg = |c| Style::new().fg(c);
        Self {
            text: Style::new(),
            dim: fg(p.dim),
            accent: fg(p.accent),
            good: fg(p.good),
            warn: fg(p.warn),
            bad: fg(p.bad),
            heading: fg(p.dim).add_modifier(Modifier::BOLD),
            selected: Style::new().bg(p.selected).fg(p.on_selected).add_modifier(Modifier::BOLD),
            marked: Style::new().add_modifier(Modifier::BOLD),
            border: fg(p.border),
            focused: fg(p.accent),
            found: Style::new().bg(p.warn).fg(Color::Black),
            found_here: Style::new().bg(p.accent).fg(Color::Black).add_modifier(Modifier::BOLD),
        }
    }

    fn without_colors() -> Self {
        let (plain, bold, dim) = (
            Style::new(),
            Style::new().add_modifier(Modifier::BOLD),
            Style::new().add_modifier(Modifier::DIM),
        );
        Self {
            text: plain,
            dim,
            accent: bold,
            good: plain,
            warn: bold,
            bad: bold,
            heading: bold,
            selected: Style::new().add_modifier(Modifier::REVERSED),
            marked: Style::new().add_modifier(Modifier::UNDERLINED),
            border: dim,
            focused: bold,
            found: Style::new().add_modifier(Modifier::UNDERLINED),
            found_here: Style::new().add_modifier(Modifier::REVERSED),
        }
    }
}

struct Palette {
    dim: Color,
    accent: Color,
    good: Color,
    warn: Color,
    bad: Color,
    border: Color,
    selected: Color,
    on_selected: Color,
}
