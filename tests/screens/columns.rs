//! The dialog that chooses columns, over the table that it changes.

use super::*;

#[test]
fn the_column_dialog_is_shown_over_its_table() {
    let mut app = shown();
    press(&mut app, "1Cjjj jKK");
    snap_at("columns", &mut app, &[(80, 24), (120, 40)]);
}

#[test]
fn a_row_keeps_its_name_wherever_the_state_column_is() {
    let mut app = shown();
    press(&mut app, "1Cjjjj");
    for _ in 0..4 {
        press(&mut app, "K");
    }
    press(&mut app, "<enter>");
    for width in [80, 120, 200] {
        let seen = text(&paint(&mut app, Colors::None, width, 40));
        let dead = seen.lines().find(|line| line.contains("│ lost ")).unwrap();
        assert!(dead.contains("fe4a1c"), "{width}: {dead}");
    }
}
