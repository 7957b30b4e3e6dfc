# The data of the database: made once for each version of the generator and of MariaDB, in a folder that gets its
# name when all is there. Sourced after folder.sh.
# shellcheck shell=bash

wanted_version() {
    printf '%s %s\n' "$(python3 -B "$here/city.py" version)" "$(mariadbd --no-defaults --version)"
}

users_sql() { # password
    # The application comes by the network; whoever may enter the folder can read the table of responses over the
    # socket without a password.
    cat <<EOF
FLUSH PRIVILEGES;
CREATE USER elearning@'127.0.0.1' IDENTIFIED BY '$1';
GRANT SELECT ON elearning.* TO elearning@'127.0.0.1';
GRANT INSERT ON elearning.response TO elearning@'127.0.0.1';
CREATE USER sampler@localhost;
GRANT SELECT ON elearning.response TO sampler@localhost;
EOF
}

make_data() {
    need mariadbd mariadb-server-core
    need mariadb-install-db mariadb-server-core
    need python3 python3
    exec 8>>"$folder/data.lock"
    flock 8
    local version new word
    version=$(wanted_version)
    if [ -d "$data" ] && [ "$(cat "$folder/version" 2>/dev/null)" = "$version" ]; then
        exec 8>&-
        return
    fi
    say "making the data of the database in $data"
    new=$folder/data.new
    rm -rf "$new" "$data" "$folder/version" "$folder/files"
    mkdir "$folder/files"
    python3 -B "$here/city.py" data "$folder/files"
    word=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    users_sql "$word" >>"$folder/files/load.sql"
    chmod 644 "$folder/files"/*
    as_account mkdir "$new" "$new/tmp"
    as_account mariadb-install-db --no-defaults --datadir="$new" --tmpdir="$new/tmp" --skip-test-db \
        --auth-root-authentication-method=normal >"$folder/install.log" 2>&1 \
        || refuse "MariaDB cannot make its folder: see $folder/install.log"
    as_account mariadbd --no-defaults --bootstrap --datadir="$new" --tmpdir="$new/tmp" --skip-log-bin \
        --innodb-buffer-pool-size=128M --innodb-log-file-size=32M --innodb-flush-log-at-trx-commit=0 \
        --secure-file-priv="$folder/files" <"$folder/files/load.sql" >"$folder/load.log" 2>&1 \
        || refuse "MariaDB cannot load the data: see $folder/load.log"
    if grep -q '^ERROR' "$folder/load.log"; then
        refuse "MariaDB cannot load the data: see $folder/load.log"
    fi
    as_account sh -c 'umask 077 && printf "%s\n" "$2" >"$1"' write "$password" "$word"
    rm -rf "$folder/files"
    mv "$new" "$data"
    printf '%s\n' "$version" >"$folder/version"
    exec 8>&-
}
