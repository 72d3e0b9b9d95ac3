//! Checks that the zone offers the TPU types.

use super::Rules;
use serde_yaml::Value;

impl Rules<'_> {
    /// Checks that the zone offers each TPU: otherwise each request for it is refused.
    pub(super) fn zones_of_tpus(&mut self) {
        let Some(table) = self.table else { return };
        let zone = self.text_at(&["provider", "availability_zone"]).unwrap_or_default().to_owned();
        for (name, value) in self.types() {
            let Some(wanted) =
                value.get("node_config").and_then(|c| c.get("acceleratorType")).and_then(Value::as_str)
            else {
                continue;
            };
            let path = ["available_node_types", name.as_str(), "node_config", "acceleratorType"];
            let generation = wanted.rsplit_once('-').map_or(wanted, |(generation, _)| generation);
            let offers = |zone: &str| {
                table
                    .generations
                    .values()
                    .any(|g| g.accelerator == generation && g.zones.iter().any(|z| z == zone))
            };
            let mut zones: Vec<&str> = table
                .generations
                .values()
                .filter(|g| g.accelerator == generation)
                .flat_map(|g| g.zones.iter().map(String::as_str))
                .collect();
            zones.sort_unstable();
            zones.dedup();
            if zones.is_empty() {
                let what = format!("{name}: TPU `{generation}` is not in clusters.yaml");
                self.warn("unknown-tpu", &path, what, "correct it, or add its generation to clusters.yaml");
            } else if !offers(&zone) {
                let what = format!("{name}: zone {zone} does not offer {wanted}");
                let hint = format!("{generation} is offered in {}", zones.join(", "));
                self.error("zone-without-tpu", &path, what, &hint);
                // The other types of the generation would have the same finding.
                return;
            }
        }
    }
}
