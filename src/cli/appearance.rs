//! Chooses the appearance of the console: the theme from the option or the settings, the colors that the terminal
//! supports, and the columns from the settings.

use super::{Colors, DisplayArguments};
use crate::app::pages::tables;
use crate::config::{self, AUTO_THEME, Env, Folders, Settings, nearest};
use crate::tui::{Background, ThemeChoice};
use crate::ui::{self, BUILT_IN, Glyphs, ThemeFile};
use anyhow::Context;
use std::collections::BTreeMap;

/// Maximum number of themes that extend each other.
const MAX_DEPTH: usize = 8;

/// The themes for a dark and a light terminal; the same if a theme was chosen.
pub(super) fn chosen(
    arguments: &DisplayArguments,
    settings: &Settings,
    env: &Env,
    folders: &Folders,
) -> anyhow::Result<ThemeChoice> {
    let colors = colors(arguments.colors, env);
    let name = arguments.theme.as_deref().unwrap_or(&settings.theme);
    let glyphs = if settings.plain { Glyphs::Plain } else { Glyphs::Full };
    if name == AUTO_THEME {
        let theme = |name| anyhow::Ok(ThemeFile::built_in(name)?.theme(colors).on_terminal().with(glyphs));
        let asks = colors != ui::Colors::None && env.var("TERM") != Some("linux");
        let guess = env.var("COLORFGBG").and_then(Background::of_colorfgbg).unwrap_or(Background::Dark);
        return Ok(ThemeChoice { dark: theme("dark")?, light: theme("light")?, guess, asks });
    }
    let theme = load(name, env, folders, MAX_DEPTH)?.theme(colors).with(glyphs);
    Ok(ThemeChoice { dark: theme, light: theme, guess: Background::Dark, asks: false })
}

/// The columns in the settings, after checking that all of them exist.
pub(super) fn columns(settings: &Settings) -> anyhow::Result<&BTreeMap<String, Vec<String>>> {
    let tables = tables();
    let meant = |word: &str, known: &[&str]| match nearest(word, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`? Valid columns: {}", known.join(", ")),
        None => format!("use {}", known.join(", ")),
    };
    for (name, columns) in &settings.columns {
        let Some((_, known)) = tables.iter().find(|(known, _)| known == name) else {
            let names: Vec<&str> = tables.iter().map(|(known, _)| *known).collect();
            anyhow::bail!("columns: unknown table `{name}`; {}", meant(name, &names));
        };
        if let Some(unknown) = columns.iter().find(|column| !known.contains(&column.as_str())) {
            anyhow::bail!("columns: {name} has no column `{unknown}`; {}", meant(unknown, known));
        }
    }
    Ok(&settings.columns)
}

/// Loads a theme and those that it extends.
fn load(name: &str, env: &Env, folders: &Folders, depth_left: usize) -> anyhow::Result<ThemeFile> {
    if BUILT_IN.iter().any(|(known, _)| *known == name) {
        return ThemeFile::built_in(name).context("a built-in theme cannot be read");
    }
    let file = config::theme_file(name, env, folders);
    if !file.exists() {
        let known = || [AUTO_THEME].into_iter().chain(BUILT_IN.iter().map(|(known, _)| *known));
        let meant =
            nearest(name, known()).map_or_else(String::new, |meant| format!("did you mean `{meant}`? "));
        anyhow::bail!(
            "unknown theme `{name}`: {} does not exist; {meant}use {}, or a theme file",
            file.display(),
            known().collect::<Vec<_>>().join(", ")
        );
    }
    let theme: ThemeFile = config::read_theme(&file)?;
    let base = theme.extends.clone().unwrap_or_else(|| "dark".into());
    if depth_left == 0 || base == name {
        anyhow::bail!("{}: themes extend each other in a loop; extend a built-in theme", file.display());
    }
    let base = load(&base, env, folders, depth_left - 1);
    Ok(theme.over(base.with_context(|| format!("{}: cannot extend a theme", file.display()))?))
}

/// The colors to use: those of the option, or else according to `NO_COLOR` (no-color.org), `COLORTERM` and `TERM`.
fn colors(chosen: Option<Colors>, env: &Env) -> ui::Colors {
    let term = env.var("TERM").unwrap_or_default();
    match chosen {
        Some(Colors::None) => ui::Colors::None,
        Some(Colors::Full) => ui::Colors::Full,
        None if env.var("NO_COLOR").is_some() || term == "dumb" => ui::Colors::None,
        None if matches!(env.var("COLORTERM"), Some("truecolor" | "24bit")) => ui::Colors::Full,
        Some(Colors::Sixteen) | None => ui::Colors::Sixteen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::Theme;
    use std::fs;

    struct Home(tempfile::TempDir, Vec<(&'static str, &'static str)>);

    impl Home {
        fn new(vars: &[(&'static str, &'static str)]) -> Self {
            let home = tempfile::tempdir().unwrap();
            fs::create_dir_all(home.path().join(".config/marin-tui/themes")).unwrap();
            Self(home, vars.to_vec())
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.0.path().join(format!(".config/marin-tui/themes/{name}.yaml")), text).unwrap();
        }

        fn theme_choice(&self, theme: &str) -> Result<ThemeChoice, String> {
            let home = self.0.path().to_str().unwrap();
            let env = Env::new(&[&[("HOME", home)], &self.1[..]].concat(), home);
            let arguments = DisplayArguments { no_mouse: false, colors: None, plain: false, theme: None };
            let settings = Settings { theme: theme.into(), ..Settings::default() };
            chosen(&arguments, &settings, &env, &Folders::new(&env)).map_err(|e| format!("{e:#}"))
        }
    }

    #[test]
    fn a_mistyped_column_is_reported_with_the_valid_ones() {
        let read = |table: &str, ids: &[&str]| {
            let ids = ids.iter().map(ToString::to_string).collect();
            let settings = Settings { columns: [(table.to_owned(), ids)].into(), ..Settings::default() };
            columns(&settings).cloned().map_err(|e| e.to_string())
        };
        assert_eq!(read("nodes", &["node", "cpu%"]).unwrap()["nodes"], ["node", "cpu%"]);
        let column = read("jobs", &["job", "onwer"]).unwrap_err();
        assert!(column.starts_with("columns: jobs has no column `onwer`; did you mean `owner`?"), "{column}");
        assert!(column.contains("mark, job, owner"), "{column}");
        let table = read("pods", &["node"]).unwrap_err();
        assert!(table.contains("unknown table `pods`") && table.contains("all-nodes"), "{table}");
    }

    #[test]
    fn auto_has_a_theme_for_each_background_and_queries_it_unless_there_are_no_colors() {
        let home = Home::new(&[("COLORTERM", "truecolor")]);
        let choice = home.theme_choice("auto").unwrap();
        assert!(choice.asks && choice.guess == Background::Dark && choice.dark != choice.light);
        assert_eq!(choice.dark, Theme::new(ui::Colors::Full));
        let choice = Home::new(&[("COLORFGBG", "0;15")]).theme_choice("auto").unwrap();
        assert!(choice.asks && choice.guess == Background::Light);
        assert_eq!(choice.dark, Theme::new(ui::Colors::Sixteen));
        let choice =
            Home::new(&[("COLORTERM", "truecolor"), ("NO_COLOR", "1")]).theme_choice("auto").unwrap();
        assert!(!choice.asks && choice.dark == choice.light);
        assert!(!home.theme_choice("light").unwrap().asks);
    }

    #[test]
    fn a_user_theme_extends_another() {
        let home = Home::new(&[("COLORTERM", "truecolor")]);
        home.write("mine", "extends: base\nfull: {bad: bold magenta}\n");
        home.write("base", "extends: light\nfull: {warn: italic cyan}\n");
        let (mine, light) =
            (home.theme_choice("mine").unwrap().dark, home.theme_choice("light").unwrap().dark);
        assert_ne!(mine.bad, light.bad);
        assert_ne!(mine.warn, light.warn);
        let mut expected = light;
        (expected.bad, expected.warn) = (mine.bad, mine.warn);
        assert_eq!(mine, expected);
        let path = home.0.path().join(".config/marin-tui/themes/mine.yaml");
        assert_eq!(home.theme_choice(path.to_str().unwrap()).unwrap().dark, mine);
    }

    #[test]
    fn errors_have_the_file_the_line_and_the_valid_names() {
        let home = Home::new(&[("COLORTERM", "truecolor")]);
        let why = |name: &str, text: &str| {
            home.write(name, text);
            home.theme_choice(name).unwrap_err()
        };
        let role = why("a", "extends: dark\nfull:\n  good: green\n  baad: red\n");
        assert!(role.contains("themes/a.yaml:4:") && role.contains("unknown role `baad`"), "{role}");
        assert!(role.contains("did you mean `bad`? use text, dim,"), "{role}");
        let color = why("b", "full:\n  good: green\n  bad: bold reddish\n");
        assert!(color.contains("themes/b.yaml:3:") && color.contains("`reddish` is not a color"), "{color}");
        assert!(color.contains("use default, black, red") && color.contains("#rrggbb"), "{color}");
        let part = why("c", "extends: dark\nful: {}\n");
        assert!(
            part.contains("themes/c.yaml:2:") && part.contains("unknown part of a theme `ful`"),
            "{part}"
        );
        let comment = why("d", "full:\n  bad: #ff0000\n");
        assert!(comment.contains("quote a color"), "{comment}");
        let rgb = why("e", "sixteen: {bad: '#ff0000'}\n");
        assert!(rgb.contains("`#ff0000` is not a color"), "{rgb}");
        let cycle = why("f", "extends: f\n");
        assert!(cycle.contains("extend each other"), "{cycle}");
        let name = home.theme_choice("drak").unwrap_err();
        assert!(name.contains("did you mean `dark`? use auto, dark, light, color-blind"), "{name}");
    }
}
