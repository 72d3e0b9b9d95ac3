//! Theme files: styles by role, in words, for 24-bit colors and for the sixteen colors of the terminal.

use super::role::Role;
use super::{Colors, Theme, contrast};
use ratatui::style::{Color, Modifier, Style};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The built-in themes, by name.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("dark", include_str!("../../../assets/themes/dark.yaml")),
    ("light", include_str!("../../../assets/themes/light.yaml")),
    ("color-blind", include_str!("../../../assets/themes/color-blind.yaml")),
    ("high-contrast", include_str!("../../../assets/themes/high-contrast.yaml")),
    (MONO, include_str!("../../../assets/themes/mono.yaml")),
];

/// The theme for terminals without colors.
const MONO: &str = "mono";

/// Words of a style that are not colors.
const MODIFIERS: &[(&str, Modifier)] = &[
    ("bold", Modifier::BOLD),
    ("dim", Modifier::DIM),
    ("italic", Modifier::ITALIC),
    ("underlined", Modifier::UNDERLINED),
    ("reversed", Modifier::REVERSED),
];

/// The colors of the terminal, by name.
const NAMED_COLORS: &[(&str, Color)] = &[
    ("default", Color::Reset),
    ("black", Color::Black),
    ("red", Color::Red),
    ("green", Color::Green),
    ("yellow", Color::Yellow),
    ("blue", Color::Blue),
    ("magenta", Color::Magenta),
    ("cyan", Color::Cyan),
    ("white", Color::Gray),
    ("dark-gray", Color::DarkGray),
    ("light-red", Color::LightRed),
    ("light-green", Color::LightGreen),
    ("light-yellow", Color::LightYellow),
    ("light-blue", Color::LightBlue),
    ("light-magenta", Color::LightMagenta),
    ("light-cyan", Color::LightCyan),
    ("light-white", Color::White),
];

/// The content of a theme file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ThemeFile {
    /// The theme that provides styles missing here: one of [`BUILT_IN`] or another file.
    pub extends: Option<String>,
    background: Option<Words<true>>,
    full: BTreeMap<Role, Words<true>>,
    sixteen: BTreeMap<Role, Words<false>>,
}

impl Theme {
    /// The default theme for these colors, on the background of the terminal.
    pub fn new(colors: Colors) -> Self {
        // A test checks that all built-in themes can be parsed.
        ThemeFile::built_in("dark").map(|file| file.theme(colors)).unwrap_or_default().on_terminal()
    }
}

impl ThemeFile {
    /// A theme of [`BUILT_IN`], merged with the ones that it extends.
    pub fn built_in(name: &str) -> Result<Self, serde_yaml::Error> {
        let text = BUILT_IN.iter().find(|(known, _)| *known == name).map_or("{}", |(_, text)| text);
        let file: Self = serde_yaml::from_str(text)?;
        match file.extends.clone() {
            Some(base) if base != name => Ok(file.over(Self::built_in(&base)?)),
            _ => Ok(file),
        }
    }

    /// The styles of the file, and those of `base` for other roles.
    #[must_use]
    pub fn over(self, mut base: Self) -> Self {
        base.full.extend(self.full);
        base.sixteen.extend(self.sixteen);
        Self { background: self.background.or(base.background), extends: self.extends, ..base }
    }

    /// The theme for these colors. Without colors it is always `mono`.
    pub fn theme(&self, colors: Colors) -> Theme {
        let sixteen = |role| self.sixteen.get(&role).map(|words| words.0);
        let full = |role| self.full.get(&role).map(|words| words.0);
        let background = self.background.and_then(|words| words.0.fg);
        let is_light = background.is_some_and(contrast::is_light);
        match colors {
            Colors::None => {
                let mono = Self::built_in(MONO).unwrap_or_default();
                Theme::of(
                    colors,
                    |role| mono.sixteen.get(&role).map(|words| words.0).unwrap_or_default(),
                    None,
                )
            }
            Colors::Sixteen => {
                let theme = Theme::of(colors, |role| sixteen(role).unwrap_or_default(), None);
                Theme { is_light, ..theme }
            }
            Colors::Full => {
                let style = |role| full(role).or(sixteen(role)).unwrap_or_default();
                Theme { is_light, ..Theme::of(colors, style, background) }
            }
        }
    }
}

/// A style in words: `bold red on #112233`. `FULL` also allows 24-bit colors.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
struct Words<const FULL: bool>(Style);

impl<const FULL: bool> TryFrom<String> for Words<FULL> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.trim().is_empty() {
            // In YAML, # begins a comment.
            return Err("a style is empty; quote a color that begins with #, or write `default`".into());
        }
        let mut style = Style::new();
        let mut is_background = false;
        for word in text.split_whitespace() {
            if word == "on" {
                is_background = true;
            } else if let Some((_, modifier)) = MODIFIERS.iter().find(|(name, _)| *name == word) {
                style = style.add_modifier(*modifier);
            } else {
                let color = color(word).filter(|color| FULL || !matches!(color, Color::Rgb(..)));
                let color = color.ok_or_else(|| unknown(word, FULL))?;
                style = match color {
                    // It must not override an underlying style.
                    Color::Reset => style,
                    color if is_background => style.bg(color),
                    color => style.fg(color),
                };
            }
        }
        Ok(Self(style))
    }
}

/// Parses the name of a color, or `#rrggbb`.
fn color(word: &str) -> Option<Color> {
    let named = NAMED_COLORS.iter().find(|(name, _)| *name == word).map(|(_, color)| *color);
    named.or_else(|| word.starts_with('#').then(|| word.parse().ok()).flatten())
}

fn unknown(word: &str, full: bool) -> String {
    let names = NAMED_COLORS.iter().map(|(name, _)| *name).chain(full.then_some("#rrggbb"));
    let words = MODIFIERS.iter().map(|(name, _)| *name).chain(["on"]);
    let list = |names: Vec<&str>| names.join(", ");
    format!("`{word}` is not a color; use {}, with {}", list(names.collect()), list(words.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Style, String> {
        Words::<true>::try_from(text.to_owned()).map(|words| words.0)
    }

    #[test]
    fn a_style_is_parsed_from_words() {
        let style = words("bold light-red on #102030").unwrap();
        assert_eq!(style.fg, Some(Color::LightRed));
        assert_eq!(style.bg, Some(Color::Rgb(0x10, 0x20, 0x30)));
        assert_eq!(style.add_modifier, Modifier::BOLD);
        assert_eq!(words("default").unwrap(), Style::new());
        for wrong in ["teal", "#12345", "#12345é", "12", "bold blink"] {
            let why = words(wrong).unwrap_err();
            assert!(why.contains("is not a color; use default, black") && why.contains("#rrggbb"), "{why}");
        }
        assert!(Words::<false>::try_from("#102030".to_owned()).is_err(), "not one of the sixteen");
    }

    #[test]
    fn a_theme_overrides_only_its_own_roles() {
        let mine: ThemeFile = serde_yaml::from_str("{extends: light, full: {bad: '#ff00ff'}}").unwrap();
        let light = ThemeFile::built_in("light").unwrap();
        let (theme, base) = (mine.over(light.clone()).theme(Colors::Full), light.theme(Colors::Full));
        assert_eq!(theme.bad.fg, Some(Color::Rgb(0xff, 0, 0xff)));
        assert_eq!(Theme { bad: base.bad, ..theme }, base);
    }

    #[test]
    fn every_built_in_theme_defines_every_role() {
        for (name, text) in BUILT_IN {
            let file = ThemeFile::built_in(name).unwrap_or_else(|e| panic!("{name}: {e}"));
            let raw: serde_yaml::Value = serde_yaml::from_str(text).unwrap();
            let base = raw.get("extends").and_then(serde_yaml::Value::as_str).unwrap_or(name);
            assert!(BUILT_IN.iter().any(|(known, _)| *known == base), "{name} extends {base}");
            assert_eq!(file.sixteen.len(), 13, "{name}");
            assert!(*name == "mono" || file.full.len() == 13, "{name}");
        }
    }
}
