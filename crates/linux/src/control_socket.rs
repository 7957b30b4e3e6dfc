//! Unix sockets with peer credentials.
