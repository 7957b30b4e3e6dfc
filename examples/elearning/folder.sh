# The folder with the data of the application: options, owner, places. Sourced by the programs beside it, which set
# `program` before.
# shellcheck shell=bash
# The programs use what is set here.
# shellcheck disable=SC2034
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
repository=$(cd "$here/../.." && pwd -P)
export PATH="$PATH:/usr/sbin:/sbin"

folder=$repository/target/elearning
port=18080
database_port=13306
table=off
warm_up=3000
# Servers have no business as root.
account=nobody

say() { printf '%s: %s\n' "$program" "$*" >&2; }

refuse() {
    say "$*"
    exit 1
}

take_port() { # option, value
    case "$2" in
        '' | *[!0-9]* | ??????*) refuse "$1 \"$2\" is no port; give a number from 1024 to 65535" ;;
    esac
    if [ "$2" -lt 1024 ] || [ "$2" -gt 65535 ]; then
        refuse "$1 $2 is out of range; give a port from 1024 to 65535"
    fi
}

take_count() { # option, value
    case "$2" in
        '' | *[!0-9]* | ???????*) refuse "$1 \"$2\" is no number of requests; give one from 0 to 999999" ;;
    esac
}

take_options() {
    while [ $# -gt 0 ]; do
        case "$1" in
            --table) table=on ;;
            --folder | --port | --database-port | --warm-up)
                [ $# -gt 1 ] || refuse "$1 lacks its value"
                case "$1" in
                    --folder) folder=$2 ;;
                    --port) take_port "$1" "$2" && port=$2 ;;
                    --warm-up) take_count "$1" "$2" && warm_up=$2 ;;
                    --database-port) take_port "$1" "$2" && database_port=$2 ;;
                esac
                shift ;;
            *) refuse "there is no option \"$1\"; give --folder DIR, --port N, --database-port N," \
                "--warm-up N, or --table" ;;
        esac
        shift
    done
}

# Runs a command as the account that owns the folder; `setpriv` also runs as anyone else, and changes nothing then.
as_account() {
    if [ "$(id -u)" -eq 0 ]; then
        setpriv --reuid "$account" --regid "$(id -g "$account")" --clear-groups -- "$@"
    else
        "$@"
    fi
}

enter_folder() {
    if [ ! -e "$folder" ]; then
        mkdir -p "$folder"
        [ "$(id -u)" -ne 0 ] || chown "$account:" "$folder"
        chmod 755 "$folder"
    fi
    folder=$(cd "$folder" && pwd -P) || refuse "$folder is no folder; give another one by --folder"
    local owner wanted
    owner=$(stat -c %u "$folder")
    wanted=$(as_account id -u)
    [ "$owner" = "$wanted" ] || refuse "$folder belongs to $(stat -c %U "$folder"), not to $(as_account id -un)," \
        "as which the servers run; give another one by --folder"
    as_account test -x "$folder/." || refuse "user $(as_account id -un) cannot enter $folder; give one by --folder" \
        "that everyone can enter, such as /var/tmp/elearning"
    # The longest name of a Unix socket.
    [ ${#folder} -le 80 ] || refuse "the path $folder is longer than 80 characters; give a shorter one by --folder"
    data=$folder/data
    socket=$folder/database.sock
    password=$folder/password
}

# Takes a lock that the program keeps across exec, as long as it lives.
hold_lock() { # what
    exec 9>>"$folder/$1.lock"
    flock -n 9 || refuse "there is a $1 already with the folder $folder; end it, or give another --folder"
}

need() { # file or command, package
    command -v "$1" >/dev/null 2>&1 || [ -e "$1" ] || refuse "$1 is missing; install $2 (tools/setup test)"
}

# Becomes a program that ends with the process that started this one, however that ends.
become() {
    local guard='[ "$(cut -d" " -f4 /proc/$$/stat)" = "$1" ] || exit 1; shift; exec "$@"'
    local drop=()
    if [ "$(id -u)" -eq 0 ]; then
        drop=(--reuid "$account" --regid "$(id -g "$account")" --clear-groups)
    fi
    # A change of the account takes the signal back, so it is asked for after that. The parent may have ended before.
    exec setpriv "${drop[@]}" -- setpriv --pdeathsig KILL -- sh -c "$guard" guard "$PPID" "$@"
}
