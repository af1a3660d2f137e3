#!/bin/bash
# Starts the services and ends with its input; all of them end with this process, the first of its PID namespace.
#
# services.sh start NAME starts one of them again.
set -euo pipefail

readonly state=/var/lab log=/var/log/lab run=/run/lab etc=/etc/lab
readonly host=127.0.0.1 keystone=http://127.0.0.1:5000/v3 region=RegionOne
mkdir -p "$state"/{mysql,rabbit,glance,nova,cinder,lock,keys,credential-keys,faults,guests} "$log" "$run" "$etc/placement"

database() { printf 'mysql+pymysql://root@localhost/%s?unix_socket=%s/mysql.sock&charset=utf8mb4' "$1" "$run"; }
sql() { mariadb --no-defaults --user root --socket "$run/mysql.sock" "$@"; }

# --- configuration -------------------------------------------------------------------------------

# account NAME: how a service logs in.
account() {
    cat <<TEXT
auth_url = $keystone
auth_type = password
project_domain_name = Default
user_domain_name = Default
project_name = service
username = $1
password = secret-of-$1
region_name = $region
TEXT
}

# common NAME: what each service has.
common() {
    cat <<TEXT
[keystone_authtoken]
www_authenticate_uri = $keystone
$(account "$1")
service_token_roles = service
service_token_roles_required = true
token_cache_time = 30
[service_user]
send_service_user_token = true
$(account "$1")
[oslo_concurrency]
lock_path = $state/lock
TEXT
}

configure() {
    cat >"$etc/keystone.conf" <<TEXT
[DEFAULT]
log_file = $log/keystone.log
[database]
connection = $(database keystone)
[token]
provider = fernet
[fernet_tokens]
key_repository = $state/keys
[fernet_receipts]
key_repository = $state/keys
[credential]
key_repository = $state/credential-keys
# Without it each token takes 0.1 to 0.2 s of a processor to check, and a busy machine starves the services.
[cache]
enabled = true
backend = oslo_cache.dict
expiration_time = 600
TEXT
    cat >"$etc/placement/placement.conf" <<TEXT
[DEFAULT]
log_file = $log/placement.log
[placement_database]
connection = $(database placement)
$(common placement)
TEXT
    cat >"$etc/glance.conf" <<TEXT
[DEFAULT]
bind_host = $host
workers = 0
log_file = $log/glance.log
enabled_import_methods = []
[database]
connection = $(database glance)
[glance_store]
filesystem_store_datadir = $state/glance
[paste_deploy]
flavor = keystone
config_file = /usr/share/glance-common/glance-api-paste.ini
$(common glance)
TEXT
    cat >"$etc/cinder.conf" <<TEXT
[DEFAULT]
state_path = $state/cinder
transport_url = rabbit://guest:guest@$host:5672/
auth_strategy = keystone
api_paste_config = /usr/share/cinder-common/api-paste.ini
osapi_volume_listen = $host
osapi_volume_workers = 1
my_ip = $host
host = lab
enabled_backends = files
default_volume_type = files
glance_api_servers = http://$host:9292
[files]
volume_driver = lab.volumes.FileDriver
volume_backend_name = files
[database]
connection = $(database cinder)
[coordination]
backend_url = file://$state/cinder/coordination
[nova]
$(account cinder)
$(common cinder)
TEXT
    # Nova reaches Cinder through a proxy, which can hold its requests back.
    cat >"$etc/nova.conf" <<TEXT
[DEFAULT]
state_path = $state/nova
my_ip = $host
host = lab
transport_url = rabbit://guest:guest@$host:5672/
enabled_apis = osapi_compute
osapi_compute_listen = $host
osapi_compute_workers = 1
compute_driver = lab.guests.LoopDriver
allow_resize_to_same_host = true
vif_plugging_is_fatal = false
vif_plugging_timeout = 0
[api]
auth_strategy = keystone
[wsgi]
api_paste_config = /usr/share/nova-common/api-paste.ini
[api_database]
connection = $(database nova_api)
[database]
connection = $(database nova)
[conductor]
workers = 1
[scheduler]
workers = 1
[cinder]
endpoint_template = http://$host:18776/v3/%(project_id)s
os_region_name = $region
$(account nova)
[glance]
api_servers = http://$host:9292
[neutron]
endpoint_override = http://$host:9696
$(account nova)
[placement]
$(account nova)
[key_manager]
backend = nova.keymgr.conf_key_mgr.ConfKeyManager
[vnc]
enabled = false
$(common nova)
TEXT
    mkdir -p "$state/rabbit"
    echo '[].' >"$state/rabbit/plugins"
    : >"$state/rabbit/env.conf"
    printf 'listeners.tcp.1 = %s:5672\nlog.console = false\nvm_memory_high_watermark.absolute = 1GB\n' "$host" \
        >"$state/rabbit/rabbitmq.conf"
}

# --- services ------------------------------------------------------------------------------------

# serve NAME COMMAND...: in the background, with a log and its PID, as this namespace has it.
serve() {
    local name=$1
    shift
    setsid nice -n 5 "$@" >>"$log/$name.out" 2>&1 </dev/null &
    echo $! >"$run/$name.pid"
}

# python_service NAME MODULE OPTION...
python_service() {
    local name=$1 module=$2
    shift 2
    serve "$name" python3 -c "from $module import main; main()" "$@"
}

# An unannounced end of a connection would lose the request that a client sends next on it.
wsgi() {
    local name=$1 port=$2 program=$3
    shift 3
    serve "$name" env "$@" uwsgi-core --plugin python311 --add-header 'Connection: close' --master --die-on-term --need-app \
        --lazy-apps --buffer-size 65535 --processes 1 --threads 4 --http-socket "$host:$port" --wsgi-file "$program"
}

start() {
    case $1 in
        mariadb)
            serve mariadb mariadbd --no-defaults --user=root --datadir="$state/mysql" --socket="$run/mysql.sock" \
                --pid-file="$run/mysql.pid" --skip-networking --skip-grant-tables --max-connections=1000 \
                --innodb-flush-log-at-trx-commit=2 --character-set-server=utf8mb4 --tmpdir="$run"
            ;;
        rabbit)
            export RABBITMQ_NODENAME=lab@localhost RABBITMQ_MNESIA_BASE=$state/rabbit/mnesia RABBITMQ_LOG_BASE=$log \
                RABBITMQ_ENABLED_PLUGINS_FILE=$state/rabbit/plugins RABBITMQ_CONF_ENV_FILE=$state/rabbit/env.conf \
                RABBITMQ_CONFIG_FILE=$state/rabbit/rabbitmq RABBITMQ_PID_FILE=$run/rabbit.beam.pid \
                ERL_EPMD_ADDRESS=$host RABBITMQ_NODE_IP_ADDRESS=$host RABBITMQ_NODE_PORT=5672 HOME=$state/rabbit \
                RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1} +S 2:2'
            serve epmd epmd -address "$host"
            serve rabbit /usr/lib/rabbitmq/bin/rabbitmq-server
            ;;
        keystone) wsgi keystone 5000 /usr/bin/keystone-wsgi-public OS_KEYSTONE_CONFIG_FILES="$etc/keystone.conf" ;;
        placement) wsgi placement 8778 /usr/bin/placement-api OS_PLACEMENT_CONFIG_DIR="$etc/placement" ;;
        neutron) serve neutron python3 -m lab.neutron 9696 ;;
        # PORT:TARGET:NAME of each
        proxies)
            serve proxies python3 -m lab.proxy 18776:8776:nova-cinder 25000:5000:keystone 28774:8774:nova 28776:8776:cinder \
                38774:8774:elsewhere 38776:8776:elsewhere
            ;;
        glance) python_service glance glance.cmd.api --config-file "$etc/glance.conf" ;;
        cinder-*)
            python_service "$1" "cinder.cmd.${1#cinder-}" --config-file "$etc/cinder.conf" --log-file "$log/$1.log"
            ;;
        nova-compute) serve "$1" python3 -m lab.compute --config-file "$etc/nova.conf" --log-file "$log/$1.log" ;;
        nova-*)
            python_service "$1" "nova.cmd.${1#nova-}" --config-file "$etc/nova.conf" --log-file "$log/$1.log"
            ;;
    esac
}

# wait_for SECONDS COMMAND...
wait_for() {
    local tries=$(($1 * 2))
    shift
    until "$@" >/dev/null 2>&1; do
        ((tries-- > 0)) || {
            printf 'gave up waiting for: %s\n' "$*" >&2
            exit 1
        }
        sleep 0.5
    done
}

listens() { (exec 3<>"/dev/tcp/$host/$1"); }
# The row of an earlier start does not count.
has_reported() {
    [[ $(sql -N "$1" -e "select count(*) from services where deleted = 0 and coalesce(updated_at, created_at) > '$began'") == "$2" ]]
}
nova_manage() { nova-manage --config-file "$etc/nova.conf" "$@"; }

make_databases() {
    local name
    for name in keystone cinder nova nova_api nova_cell0 placement glance; do
        sql -e "create database $name character set utf8"
    done
    keystone-manage --config-file "$etc/keystone.conf" db_sync
    for name in fernet_setup credential_setup; do
        keystone-manage --config-file "$etc/keystone.conf" "$name" --keystone-user root --keystone-group root
    done
    keystone-manage --config-file "$etc/keystone.conf" bootstrap --bootstrap-password secret-of-admin \
        --bootstrap-admin-url $keystone --bootstrap-internal-url $keystone --bootstrap-public-url $keystone \
        --bootstrap-region-id $region
    placement-manage --config-file "$etc/placement/placement.conf" db sync
    glance-manage --config-file "$etc/glance.conf" db_sync
    cinder-manage --config-file "$etc/cinder.conf" db sync
    nova_manage api_db sync
    nova_manage cell_v2 map_cell0 --database_connection "$(database nova_cell0)"
    nova_manage db sync
    nova_manage cell_v2 create_cell --name cell1
}

if [[ ${1:-} == start ]]; then
    start "$2"
    exit
fi
first=''
if [[ ! -d $state/mysql/mysql ]]; then
    first=yes
    mariadb-install-db --no-defaults --user=root --datadir="$state/mysql" --auth-root-authentication-method=normal \
        --skip-test-db >"$log/install-db.out" 2>&1
fi
configure
start mariadb
start rabbit
wait_for 120 sql -e 'select 1'
began=$(sql -N -e 'select utc_timestamp()')
[[ -z $first ]] || make_databases
wait_for 180 listens 5672
start keystone
wait_for 180 listens 5000
# Users and the catalog come before what logs in with them.
[[ -z $first ]] || python3 -m lab.seed accounts
for name in neutron proxies placement glance cinder-api cinder-scheduler cinder-volume nova-conductor nova-scheduler; do
    start "$name"
done
wait_for 180 listens 8778
start nova-api
start nova-compute
for port in 9292 8776 8774; do
    wait_for 300 listens "$port"
done
wait_for 300 has_reported nova 3
wait_for 300 has_reported cinder 2
[[ -z $first ]] || nova_manage cell_v2 discover_hosts
: >"$run/up"
read -r _ || true
# In this order they write out what they have.
for name in nova-compute nova-api nova-scheduler nova-conductor cinder-volume cinder-scheduler cinder-api glance placement keystone rabbit mariadb; do
    kill -TERM "$(<"$run/$name.pid")" 2>/dev/null || true
    [[ $name != rabbit && $name != mariadb ]] || wait_for 30 eval "! kill -0 $(<"$run/$name.pid")"
done
