//! The processor architectures that the project is built for.

use crate::packages::Package;

/// A processor architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// 64-bit x86.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

impl Architecture {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// That of this machine, if the project is built for it.
    pub fn of_this_machine() -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == std::env::consts::ARCH)
    }

    /// As the kernel calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// As Go calls it, and so images and Kubernetes.
    pub fn image_name(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// As Rust calls it, with the system and its C library.
    pub fn target(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-gnu",
            Self::Aarch64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// The C compiler that makes programs for it.
    pub(crate) fn compiler(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-linux-gnu-gcc",
            Self::Aarch64 => "aarch64-linux-gnu-gcc",
        }
    }

    /// What that compiler is in on a machine of another architecture.
    pub(crate) fn cross_compiler(self) -> &'static [Package] {
        match self {
            Self::X86_64 => {
                const {
                    &[
                        Package::new("gcc-x86-64-linux-gnu", &["x86_64-linux-gnu-gcc"]),
                        Package::new(
                            "libc6-dev-amd64-cross",
                            &["/usr/x86_64-linux-gnu/lib/libc.a"],
                        ),
                    ]
                }
            }
            Self::Aarch64 => {
                const {
                    &[
                        Package::new("gcc-aarch64-linux-gnu", &["aarch64-linux-gnu-gcc"]),
                        Package::new(
                            "libc6-dev-arm64-cross",
                            &["/usr/aarch64-linux-gnu/lib/libc.a"],
                        ),
                    ]
                }
            }
        }
    }

    /// The program that runs programs of it on a machine of another architecture.
    pub(crate) fn emulator(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-x86_64-static",
            Self::Aarch64 => "qemu-aarch64-static",
        }
    }
}
