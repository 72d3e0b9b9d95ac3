//! Formats amounts of Ray's resources.

use super::Text;
use crate::model::sort;

/// Display order of resources: chips, then resources named after a slice or type, which are more specific than CPUs,
/// then CPUs, memory last.
pub fn rank(resource: &str) -> u8 {
    match resource {
        "TPU" => 0,
        "GPU" => 1,
        "CPU" => 3,
        name if is_bytes(name) => 4,
        _ => 2,
    }
}

/// Whether a resource counts accelerator chips.
pub fn is_chip(resource: &str) -> bool {
    matches!(resource, "TPU" | "GPU")
}

/// Whether the unit of a resource is bytes.
pub fn is_bytes(resource: &str) -> bool {
    matches!(resource, "memory" | "object_store_memory")
}

/// Formats an amount of a resource: memory as bytes with a unit, other resources as a number.
pub fn amount(resource: &str, value: f64) -> String {
    if is_bytes(resource) { bytes(value) } else { number(value) }
}

/// Formats a number with at most two decimals, none if it is whole; thousands are grouped.
pub fn number(value: f64) -> String {
    // Most amounts are whole, and formatting decimals is the most expensive part of a table.
    if value.fract() == 0.0 && (0.0..1e15).contains(&value) {
        return grouped(value as usize);
    }
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let (whole, decimals) = text.split_at(text.find('.').unwrap_or(text.len()));
    whole.parse().map_or_else(|_| text.to_owned(), |whole| format!("{}{decimals}", grouped(whole)))
}

/// Formats bytes with a decimal unit: `1.2 GB`.
pub fn bytes(value: f64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = value.max(0.0);
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 || value >= 99.95 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// A count with its noun: `1 job`, `2 jobs`, `2,904 jobs`.
pub fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{} {what}s", grouped(n)) }
}

/// Groups thousands: `2,904`.
pub fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Resources with amounts, in the order of [`rank`]: `TPU 16, CPU 4, memory 2.0 GB`. Empty if there are none.
pub fn shape(resources: &[(Text, f64)]) -> String {
    let mut sorted: Vec<&(Text, f64)> = resources.iter().collect();
    sort::by_key(&mut sorted, |(name, _)| rank(name.raw()));
    let words = sorted.iter().map(|(name, n)| format!("{name} {}", amount(name.raw(), *n)));
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_readable() {
        assert_eq!([4.0, 1264.0, 1264.5, -2.0].map(number), ["4", "1,264", "1,264.5", "-2"]);
        assert_eq!(number(0.500_000_000_000_000_1), "0.5");
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(999.7), "1.0 kB");
        assert_eq!(bytes(1.24e9), "1.2 GB");
        assert_eq!(bytes(470e9), "470 GB");
        assert_eq!(amount("memory", 2e9), "2.0 GB");
        let all = [("memory", 2e9), ("CPU", 4.0), ("TPU-v4-8-head", 1.0), ("TPU", 16.0)];
        let all = all.map(|(name, n)| (Text::from(name), n));
        assert_eq!(shape(&all), "TPU 16, TPU-v4-8-head 1, CPU 4, memory 2.0 GB");
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(
            [0, 999, 1000, 2_904, 1_234_567].map(grouped),
            ["0", "999", "1,000", "2,904", "1,234,567"]
        );
    }
}
