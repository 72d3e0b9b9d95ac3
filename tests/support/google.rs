//! A Google Cloud client for the simulated services.

use marin_tui::demo::google::Google as Double;
use marin_tui::gcp::{Endpoints, Google, Login, credentials};
use serde_json::json;
use std::fs;
use std::path::Path;

/// A client that reads its credentials from `adc.json` in this home when they are needed (`Double::write_adc`).
pub fn google(double: &Double, home: &Path) -> Google {
    let file = home.join("adc.json");
    let login = Login::by(move || {
        let read = |text: Vec<u8>| serde_json::from_slice(&text).unwrap();
        let grant = fs::read(&file).map_or_else(|_| json!({"type": "none"}), read);
        credentials::user_account::Builder::new(grant).build()
    });
    Google::new(Endpoints::all_at(&double.url()), login)
}
