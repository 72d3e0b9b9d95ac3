//! Plain screens: ASCII only, with the same columns as the others; and themes that paint their background.

use super::*;
use marin_tui::app::{Keymap, Listed, actions};
use marin_tui::ui::{Glyphs, ThemeFile};
use ratatui::style::Color;

fn painted(app: &mut App, theme: &Theme, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    for _ in 0..2 {
        let mut areas = None;
        terminal.draw(|frame| areas = Some(draw(frame, app, theme, NOW))).unwrap();
        app.drawn(areas.unwrap());
    }
    terminal.backend().buffer().clone()
}

#[test]
fn plain_screens_are_ascii_and_keep_their_columns() {
    let plain = Theme::new(Colors::Full).with(Glyphs::Plain);
    for keys in ["", "1", "2", "3z", "4", "?", "s", "d", "/x", ":", "R", "T", "n", "N", "J", "c", "m"] {
        let keymap =
            Keymap::with_changes(actions(), &std::collections::BTreeMap::new()).unwrap().spelled_out(true);
        let listed = ["marin-us-central2", "marin-us-east5"].map(|name| Listed::Cluster(spec(name))).to_vec();
        let mut app = App::new(listed, keymap);
        app.start(Some(&ClusterName::new(CLUSTER)));
        send_update(&mut app, CLUSTER, ClusterEvent::Link(up()));
        send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(snapshot())));
        press(&mut app, keys);
        for (width, height) in [(80, 24), (200, 60)] {
            let full = painted(&mut app, &Theme::new(Colors::Full), width, height);
            let ascii = painted(&mut app, &plain, width, height);
            assert!(!text(&full).is_ascii(), "{keys}: there are glyphs to translate");
            for (was, cell) in full.content().iter().zip(ascii.content()) {
                assert!(
                    cell.symbol().is_ascii(),
                    "{keys}: {} needs a row in src/ui/glyphs.rs",
                    cell.symbol()
                );
                assert_eq!(was.style(), cell.style());
                assert!(!was.symbol().is_ascii() || was == cell, "{keys}");
            }
        }
    }
}

#[test]
fn text_from_clusters_keeps_its_letters() {
    let mut app = shown();
    let mut named = snapshot();
    let mut job = (*named.jobs[0]).clone();
    job.entrypoint = "python größe.py 日本".into();
    named.jobs = Arc::new(vec![Arc::new(job)]);
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(named)));
    press(&mut app, "2");
    let seen = text(&painted(&mut app, &Theme::new(Colors::Full).with(Glyphs::Plain), 200, 60));
    assert!(seen.contains("python größe.py 日"), "{seen}");
    assert!(seen.contains("* up") && !seen.contains('●'), "{seen}");
}

#[test]
fn a_chosen_theme_paints_every_cell_and_auto_paints_none() {
    let chosen = ThemeFile::built_in("light").unwrap().theme(Colors::Full);
    for keys in ["", "?", "s"] {
        let mut app = shown();
        press(&mut app, keys);
        let buffer = painted(&mut app, &chosen, 120, 40);
        assert!(
            buffer.content().iter().all(|cell| cell.bg != Color::Reset && cell.fg != Color::Reset),
            "{keys}"
        );
        let buffer = painted(&mut app, &chosen.on_terminal(), 120, 40);
        assert!(buffer.content().iter().any(|cell| cell.bg == Color::Reset && cell.fg == Color::Reset));
    }
}
