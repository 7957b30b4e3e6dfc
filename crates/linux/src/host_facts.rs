//! What a fingerprint of this host needs: CPUs, frequencies, interrupts, load.
