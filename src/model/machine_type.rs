//! Machine types of Compute Engine with TPUs. Cloud TPU identifies a slice type by its accelerator type (`v6e-16`),
//! Compute Engine by the machine type of its hosts (`ct6e-standard-4t`) and their number.

/// A machine type with TPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TpuMachine<'a> {
    machine_type: &'a str,
    /// Number of chips of one machine: the number before the `t`.
    pub chips: u32,
}

impl<'a> TpuMachine<'a> {
    /// Parses a machine type such as `tpu7x-standard-4t` or `ct5p-hightpu-4t`; `None` for one without TPUs.
    pub fn parse(machine_type: &'a str) -> Option<Self> {
        let (family, rest) = machine_type.split_once('-')?;
        let number = family.strip_prefix("tpu").or_else(|| family.strip_prefix("ct"))?;
        let chips = rest.rsplit_once('-')?.1.strip_suffix('t')?.parse().ok()?;
        (number.starts_with(|c: char| c.is_ascii_digit()) && chips > 0)
            .then_some(Self { machine_type, chips })
    }

    /// The accelerator type of a slice with this many hosts, as libtpu and Ray name it (`tpu7x-16`); the machine type
    /// if this version does not know its generation.
    pub fn slice(&self, hosts: usize) -> String {
        let chips = self.chips_of(hosts);
        match self.machine_type.split('-').next().unwrap_or_default() {
            "ct4p" => format!("v4-{}", chips * 2),
            "ct5l" | "ct5lp" => format!("v5litepod-{chips}"),
            "ct5p" => format!("v5p-{}", chips * 2),
            "ct6e" => format!("v6e-{chips}"),
            "tpu7x" => format!("tpu7x-{}", chips * 2),
            _ => self.machine_type.to_owned(),
        }
    }

    /// Number of chips of this many hosts.
    pub fn chips_of(&self, hosts: usize) -> u32 {
        self.chips.saturating_mul(u32::try_from(hosts).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cloud::chips;

    #[test]
    fn slices_are_named_by_accelerator_type() {
        let slice = |machine: &str, hosts| TpuMachine::parse(machine).map(|m| m.slice(hosts));
        for (machine, hosts, named) in [
            ("tpu7x-standard-4t", 1, "tpu7x-8"),
            ("tpu7x-standard-4t", 4, "tpu7x-32"),
            ("ct6e-standard-4t", 4, "v6e-16"),
            ("ct6e-standard-1t", 1, "v6e-1"),
            ("ct5p-hightpu-4t", 8, "v5p-64"),
            ("ct5lp-hightpu-8t", 1, "v5litepod-8"),
            ("ct4p-hightpu-4t", 2, "v4-16"),
        ] {
            assert_eq!(slice(machine, hosts).as_deref(), Some(named));
            let machine = TpuMachine::parse(machine).unwrap();
            assert_eq!(chips(named), Some(machine.chips_of(hosts)), "{named}");
        }
        assert_eq!(slice("tpu9-standard-4t", 2).as_deref(), Some("tpu9-standard-4t"));
        for other in [
            "n2-standard-8",
            "a3-highgpu-8g",
            "ctx-standard-4t",
            "tpu7x",
            "tpu7x-standard-0t",
            "ct6e-standard-t",
        ] {
            assert_eq!(TpuMachine::parse(other), None, "{other}");
        }
    }
}
