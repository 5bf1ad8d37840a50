// SPDX-License-Identifier: Apache-2.0

package programs_test

// task is what an agent is asked, and two ways of doing it.
type task struct {
	api, ask string
	// isFigure marks the half that gives the published figures. The marks were made before the first run.
	isFigure bool
	// steps are the single calls of an agent, and program does the same in one.
	steps   []step
	program string
}

// step is one call, or one for each element of something: of a JSON list, or of what a path finds in the answers of an earlier
// step ("0.orders.*.id"). In arguments, "$" is the element and "$x" its member x.
type step struct {
	// find is the query by which the agent finds the tool.
	find, tool, each, arguments string
}

// tasks are six for each catalog.
func tasks() []task {
	out := demoTasks()
	out = append(out, openfgaTasks()...)
	out = append(out, etcdTasks()...)
	out = append(out, temporalTasks()...)
	return append(out, googleapisTasks()...)
}

func demoTasks() []task {
	return []task{
		{api: "demo", ask: "Which orders are on the road, and for whom?", isFigure: true, steps: []step{
			{"list vehicles", "fleet_list_vehicles", "", `{"status": "VEHICLE_STATUS_EN_ROUTE"}`},
			{"get an order", "fleet_get_order", "0.vehicles.*.orderIds.*", `{"orderId": "$"}`},
		}, program: `
vs = fleet.list_vehicles(status="VEHICLE_STATUS_EN_ROUTE").vehicles
orders = parallel([fleet.get_order(order_id=i) for v in vs for i in v.order_ids])
result = {o.id: o.customer for o in orders}
`},
		{api: "demo", ask: "How many orders have five customers, and what are their parcels worth?", isFigure: true, steps: []step{
			{"find orders of a customer", "fleet_find_orders", `["Banyan", "Clinic", "Fish", "Pearl", "Yacht"]`, `{"filter": {"customerContains": "$"}, "limit": 100}`},
		}, program: `
names = ["Banyan", "Clinic", "Fish", "Pearl", "Yacht"]
found = parallel([fleet.find_orders(filter={"customer_contains": n}, limit=100) for n in names])
result = {n: [f.total_matches, sum([p.value_cents for o in f.orders for p in o.parcels])] for n, f in zip(names, found)}
`},
		{api: "demo", ask: "Who signed for the orders that were delivered?", steps: []step{
			{"find orders by status", "fleet_find_orders", "", `{"filter": {"status": "ORDER_STATUS_DELIVERED"}}`},
			{"proof of delivery", "fleet_get_delivery_proof", "0.orders.*.id", `{"orderId": "$"}`},
		}, program: `
orders = fleet.find_orders(filter={"status": "ORDER_STATUS_DELIVERED"}).orders
result = [p.signed_by for p in parallel([fleet.get_delivery_proof(order_id=o.id) for o in orders])]
`},
		{api: "demo", ask: "Which idle vehicle needs least time for a tour of stops 2 and 4?", isFigure: true, steps: []step{
			{"list vehicles", "fleet_list_vehicles", "", `{"status": "VEHICLE_STATUS_IDLE"}`},
			{"plan a route", "fleet_plan_route", "0.vehicles.*.id", `{"vehicleId": "$", "stopIds": ["2", "4"]}`},
		}, program: `
vs = fleet.list_vehicles(status="VEHICLE_STATUS_IDLE").vehicles
routes = parallel([fleet.plan_route(vehicle_id=v.id, stop_ids=[2, 4]) for v in vs], errors=True)
result = min([(r.arrival - r.departure, v.call_sign) for v, r in zip(vs, routes) if r])
`},
		{api: "demo", ask: "What is the mean charge of all vehicles? Pages have two.", steps: []step{
			{"list vehicles", "fleet_list_vehicles", "", `{"pageSize": 2}`},
			{"list vehicles", "fleet_list_vehicles", "0.nextPageToken", `{"pageSize": 2, "pageToken": "$"}`},
			{"list vehicles", "fleet_list_vehicles", "1.nextPageToken", `{"pageSize": 2, "pageToken": "$"}`},
			{"list vehicles", "fleet_list_vehicles", "2.nextPageToken", `{"pageSize": 2, "pageToken": "$"}`},
			{"list vehicles", "fleet_list_vehicles", "3.nextPageToken", `{"pageSize": 2, "pageToken": "$"}`},
		}, program: `
charges = [v.battery_percent for v in paginate(fleet.list_vehicles, page_size=2) if v.battery_percent != None]
result = sum(charges) / len(charges)
`},
		{api: "demo", ask: "Which of six vehicles is farthest south?", steps: []step{
			{"get a vehicle", "fleet_get_vehicle", `["101", "102", "103", "104", "105", "106"]`, `{"vehicleId": "$"}`},
		}, program: `
vs = parallel([fleet.get_vehicle(vehicle_id=i) for i in range(101, 107)])
result = min(vs, key=lambda v: v.position.latitude).call_sign
`},
	}
}

func openfgaTasks() []task {
	const stores = `["01ARZ3NDEKTSV4RRFFQ69G5FA1", "01ARZ3NDEKTSV4RRFFQ69G5FA2", "01ARZ3NDEKTSV4RRFFQ69G5FA3", "01ARZ3NDEKTSV4RRFFQ69G5FA4", "01ARZ3NDEKTSV4RRFFQ69G5FA5"]`
	const five = "stores = [\"01ARZ3NDEKTSV4RRFFQ69G5FA\" + n for n in \"12345\".elems()]\n"
	return []task{
		{api: "openfga", ask: "Which of four documents may Anne and Bob read?", isFigure: true, steps: []step{
			{"check whether a user has a relation", "open_fga_check", `[{"u": "user:anne", "o": "document:1"}, {"u": "user:anne", "o": "document:2"}, {"u": "user:anne", "o": "document:3"}, {"u": "user:anne", "o": "document:4"}, {"u": "user:bob", "o": "document:1"}, {"u": "user:bob", "o": "document:2"}, {"u": "user:bob", "o": "document:3"}, {"u": "user:bob", "o": "document:4"}]`,
				`{"store_id": "01ARZ3NDEKTSV4RRFFQ69G5FA1", "tuple_key": {"user": "$u", "relation": "reader", "object": "$o"}}`},
		}, program: `
pairs = [(u, "document:" + str(d)) for u in ["user:anne", "user:bob"] for d in range(1, 5)]
checks = parallel([open_fga.check(store_id="01ARZ3NDEKTSV4RRFFQ69G5FA1", tuple_key={"user": u, "relation": "reader", "object": o}) for u, o in pairs])
result = [p for p, c in zip(pairs, checks) if c.allowed]
`},
		{api: "openfga", ask: "How many documents may each of five users view?", steps: []step{
			{"list objects that a user can access", "open_fga_list_objects", `["user:anne", "user:bob", "user:carl", "user:dora", "user:emil"]`,
				`{"store_id": "01ARZ3NDEKTSV4RRFFQ69G5FA1", "type": "document", "relation": "viewer", "user": "$"}`},
		}, program: `
users = ["user:" + n for n in ["anne", "bob", "carl", "dora", "emil"]]
found = parallel([open_fga.list_objects(store_id="01ARZ3NDEKTSV4RRFFQ69G5FA1", type="document", relation="viewer", user=u) for u in users])
result = {u: len(f.objects) for u, f in zip(users, found)}
`},
		{api: "openfga", ask: "Which types do the authorization models of five stores define?", isFigure: true, steps: []step{
			{"read authorization models", "open_fga_read_authorization_models", stores, `{"store_id": "$"}`},
		}, program: "\n" + five + `found = parallel([open_fga.read_authorization_models(store_id=s) for s in stores])
result = {s: sorted(set([d.type for m in f.authorization_models for d in m.type_definitions])) for s, f in zip(stores, found)}
`},
		{api: "openfga", ask: "In which of five stores were tuples deleted?", isFigure: true, steps: []step{
			{"read changes of tuples", "open_fga_read_changes", stores, `{"store_id": "$"}`},
		}, program: "\n" + five + `found = parallel([open_fga.read_changes(store_id=s) for s in stores])
result = [s for s, f in zip(stores, found) if any([c.operation == "TUPLE_OPERATION_DELETE" for c in f.changes])]
`},
		{api: "openfga", ask: "What are five stores called, and how many tuples does the first page of each have?", steps: []step{
			{"get a store", "open_fga_get_store", stores, `{"store_id": "$"}`},
			{"read tuples", "open_fga_read", stores, `{"store_id": "$"}`},
		}, program: "\n" + five + `names = parallel([open_fga.get_store(store_id=s) for s in stores])
tuples = parallel([open_fga.read(store_id=s) for s in stores])
result = [(n.name, len(t.tuples)) for n, t in zip(names, tuples)]
`},
		{api: "openfga", ask: "How many users may edit each of five documents?", steps: []step{
			{"list users with access to an object", "open_fga_list_users", `["1", "2", "3", "4", "5"]`,
				`{"store_id": "01ARZ3NDEKTSV4RRFFQ69G5FA1", "object": {"type": "document", "id": "$"}, "relation": "editor", "user_filters": [{"type": "user"}]}`},
		}, program: `
found = parallel([open_fga.list_users(store_id="01ARZ3NDEKTSV4RRFFQ69G5FA1", object={"type": "document", "id": str(i)}, relation="editor", user_filters=[{"type": "user"}]) for i in range(1, 6)])
result = [len(f.users) for f in found]
`},
	}
}

func etcdTasks() []task {
	return []task{
		{api: "etcd", ask: "What may five users write?", isFigure: true, steps: []step{
			{"get a user and its roles", "auth_user_get", `["anne", "bob", "carl", "dora", "emil"]`, `{"name": "$"}`},
			{"get the permissions of a role", "auth_role_get", "0.roles.*", `{"role": "$"}`},
		}, program: `
users = ["anne", "bob", "carl", "dora", "emil"]
roles = [u.roles for u in parallel([auth.user_get(name=n) for n in users])]
perms = parallel([auth.role_get(role=r) for rs in roles for r in rs])
result = [str(p.key) for r in perms for p in r.perm if p.permType != "READ"]
`},
		{api: "etcd", ask: "Which of six leases ends within five minutes?", steps: []step{
			{"time to live of a lease", "lease_lease_time_to_live", `["1", "2", "3", "4", "5", "6"]`, `{"ID": "$", "keys": true}`},
		}, program: `
found = parallel([lease.lease_time_to_live(ID=i, keys=True) for i in range(1, 7)])
result = [t.ID for t in found if t.TTL < 300]
`},
		{api: "etcd", ask: "How many keys have six tenants, and how many bytes do the first ten values have?", isFigure: true, steps: []step{
			{"range of keys", "kv_range", `[{"k": "dDEv", "e": "dDEw"}, {"k": "dDIv", "e": "dDIw"}, {"k": "dDMv", "e": "dDMw"}, {"k": "dDQv", "e": "dDQw"}, {"k": "dDUv", "e": "dDUw"}, {"k": "dDYv", "e": "dDYw"}]`,
				`{"key": "$k", "rangeEnd": "$e", "limit": "10"}`},
		}, program: `
found = parallel([kv.range(key=bytes("t%d/" % i), range_end=bytes("t%d0" % i), limit=10) for i in range(1, 7)])
result = [(f.count, sum([len(k.value) for k in f.kvs])) for f in found]
`},
		{api: "etcd", ask: "Is the cluster well: version, size, leader, members, alarms, leases?", isFigure: true, steps: []step{
			{"status of the member", "maintenance_status", "", `{}`},
			{"list the members of the cluster", "cluster_member_list", "", `{}`},
			{"list alarms", "maintenance_alarm", "", `{"action": "GET"}`},
			{"list leases", "lease_lease_leases", "", `{}`},
			{"is authentication enabled", "auth_auth_status", "", `{}`},
		}, program: `
s, m, a, l, e = parallel([maintenance.status(), cluster.member_list(), maintenance.alarm(action="GET"), lease.lease_leases(), auth.auth_status()])
result = [s.version, s.dbSize, s.leader, len(m.members), len(a.alarms), len(l.leases), e.enabled]
`},
		{api: "etcd", ask: "Which of five settings was changed last?", steps: []step{
			{"range of keys", "kv_range", `["Yy9hcGk=", "Yy9kYg==", "Yy9sb2c=", "Yy9tcQ==", "Yy93ZWI="]`, `{"key": "$", "limit": "1"}`},
		}, program: `
names = ["c/api", "c/db", "c/log", "c/mq", "c/web"]
found = parallel([kv.range(key=bytes(n), limit=1) for n in names])
result = max([(k.mod_revision, n) for n, f in zip(names, found) for k in f.kvs])[1]
`},
		{api: "etcd", ask: "Which of five roles may write anything?", steps: []step{
			{"get the permissions of a role", "auth_role_get", `["api", "batch", "db", "mq", "web"]`, `{"role": "$"}`},
		}, program: `
names = ["api", "batch", "db", "mq", "web"]
found = parallel([auth.role_get(role=n) for n in names])
result = [n for n, f in zip(names, found) if any([p.permType != "READ" for p in f.perm])]
`},
	}
}

func temporalTasks() []task {
	return []task{
		{api: "temporal", ask: "Which activities of failed workflows are retried, and what happened first?", isFigure: true, steps: []step{
			{"list workflow executions", "workflow_list_workflow_executions", "", `{"namespace": "shop", "query": "ExecutionStatus=\"Failed\""}`},
			{"describe a workflow execution", "workflow_describe_workflow_execution", "0.executions.*.execution", `{"namespace": "shop", "execution": "$"}`},
			{"history of a workflow execution", "workflow_get_workflow_execution_history", "0.executions.*.execution", `{"namespace": "shop", "execution": "$"}`},
		}, program: `
runs = workflow.list_workflow_executions(namespace="shop", query='ExecutionStatus="Failed"').executions
now = parallel([workflow.describe_workflow_execution(namespace="shop", execution=r.execution) for r in runs])
past = parallel([workflow.get_workflow_execution_history(namespace="shop", execution=r.execution) for r in runs])
result = [{"id": r.execution.workflow_id, "retried": [a.activity_id for a in n.pending_activities if a.attempt > 1], "first": [e.event_type for e in p.history.events][:1]} for r, n, p in zip(runs, now, past)]
`},
		{api: "temporal", ask: "Which schedules are paused, and why?", steps: []step{
			{"list schedules", "workflow_list_schedules", "", `{"namespace": "shop"}`},
			{"describe a schedule", "workflow_describe_schedule", "0.schedules.*.scheduleId", `{"namespace": "shop", "scheduleId": "$"}`},
		}, program: `
ids = [s.schedule_id for s in workflow.list_schedules(namespace="shop").schedules]
found = parallel([workflow.describe_schedule(namespace="shop", schedule_id=i) for i in ids])
result = {i: f.schedule.state.notes for i, f in zip(ids, found) if f.schedule.state.paused}
`},
		{api: "temporal", ask: "Which of five task queues has fewer than two workers?", isFigure: true, steps: []step{
			{"describe a task queue", "workflow_describe_task_queue", `["mail", "orders", "payments", "reports", "stock"]`, `{"namespace": "shop", "taskQueue": {"name": "$"}}`},
		}, program: `
names = ["mail", "orders", "payments", "reports", "stock"]
found = parallel([workflow.describe_task_queue(namespace="shop", task_queue={"name": n}) for n in names])
result = [n for n, f in zip(names, found) if len(f.pollers) < 2]
`},
		{api: "temporal", ask: "How many workflows have each of five states?", isFigure: true, steps: []step{
			{"count workflow executions", "workflow_count_workflow_executions", `["Running", "Completed", "Failed", "Canceled", "TimedOut"]`, `{"namespace": "shop", "query": "ExecutionStatus='$'"}`},
		}, program: `
states = ["Running", "Completed", "Failed", "Canceled", "TimedOut"]
found = parallel([workflow.count_workflow_executions(namespace="shop", query="ExecutionStatus='%s'" % s) for s in states])
result = {s: f.count for s, f in zip(states, found)}
`},
		{api: "temporal", ask: "How long do five namespaces keep histories?", steps: []step{
			{"describe a namespace", "workflow_describe_namespace", `["shop", "mail", "billing", "stock", "lab"]`, `{"namespace": "$"}`},
		}, program: `
names = ["shop", "mail", "billing", "stock", "lab"]
found = parallel([workflow.describe_namespace(namespace=n) for n in names])
result = {n: str(f.config.workflow_execution_retention_ttl) for n, f in zip(names, found)}
`},
		{api: "temporal", ask: "Which of six orders waits for an activity that was tried more than three times?", steps: []step{
			{"describe a workflow execution", "workflow_describe_workflow_execution", `["order-1", "order-2", "order-3", "order-4", "order-5", "order-6"]`, `{"namespace": "shop", "execution": {"workflowId": "$"}}`},
		}, program: `
ids = ["order-%d" % i for i in range(1, 7)]
found = parallel([workflow.describe_workflow_execution(namespace="shop", execution={"workflow_id": i}) for i in ids])
result = [i for i, f in zip(ids, found) if any([a.attempt > 3 for a in f.pending_activities])]
`},
	}
}

func googleapisTasks() []task {
	const projects = `["shop", "mail", "billing", "stock", "lab"]`
	const five = "projects = [\"shop\", \"mail\", \"billing\", \"stock\", \"lab\"]\n"
	return []task{
		{api: "googleapis", ask: "Which of six subscriptions have no topic for dead letters?", isFigure: true, steps: []step{
			{"get a subscription", "subscriber_get_subscription", `["a", "b", "c", "d", "e", "f"]`, `{"subscription": "projects/shop/subscriptions/orders-$"}`},
		}, program: `
names = ["projects/shop/subscriptions/orders-" + n for n in "abcdef".elems()]
found = parallel([subscriber.get_subscription(subscription=n) for n in names])
result = [n for n, f in zip(names, found) if f.dead_letter_policy == None]
`},
		{api: "googleapis", ask: "Which node pools of five projects do not scale by themselves?", steps: []step{
			{"list clusters", "cluster_manager_list_clusters", projects, `{"parent": "projects/$/locations/-"}`},
		}, program: "\n" + five + `found = parallel([cluster_manager.list_clusters(parent="projects/" + p + "/locations/-") for p in projects])
result = [[p, c.name, n.name] for p, f in zip(projects, found) for c in f.clusters for n in c.node_pools if n.autoscaling == None or not n.autoscaling.enabled]
`},
		{api: "googleapis", ask: "Which alerting policies of five projects are switched off?", isFigure: true, steps: []step{
			{"list alerting policies", "alert_policy_list_alert_policies", projects, `{"name": "projects/$"}`},
		}, program: "\n" + five + `found = parallel([alert_policy.list_alert_policies(name="projects/" + p) for p in projects])
result = [[p, a.display_name] for p, f in zip(projects, found) for a in f.alert_policies if not a.enabled]
`},
		{api: "googleapis", ask: "How many errors of each severity did five projects log?", isFigure: true, steps: []step{
			{"list log entries", "logging_service_v2_list_log_entries", projects, `{"resourceNames": ["projects/$"], "filter": "severity>=ERROR"}`},
		}, program: "\n" + five + `found = parallel([logging_service_v2.list_log_entries(resource_names=["projects/" + p], filter="severity>=ERROR") for p in projects])
counts = {}
for f in found:
    for e in f.entries:
        counts[e.severity] = counts.get(e.severity, 0) + 1
result = counts
`},
		{api: "googleapis", ask: "Where do the logs of five projects go?", steps: []step{
			{"list sinks of logs", "config_service_v2_list_sinks", projects, `{"parent": "projects/$"}`},
		}, program: "\n" + five + `found = parallel([config_service_v2.list_sinks(parent="projects/" + p) for p in projects])
result = {p: [s.destination for s in f.sinks if not s.disabled] for p, f in zip(projects, found)}
`},
		{api: "googleapis", ask: "Which service level objectives are below 99 %?", steps: []step{
			{"list monitored services", "service_monitoring_list_services", "", `{"parent": "projects/shop"}`},
			{"list service level objectives", "service_monitoring_list_service_level_objectives", "0.services.*.name", `{"parent": "$"}`},
		}, program: `
services = service_monitoring.list_services(parent="projects/shop").services
found = parallel([service_monitoring.list_service_level_objectives(parent=s.name) for s in services])
result = [(o.display_name, o.goal) for f in found for o in f.service_level_objectives if o.goal < 0.99]
`},
	}
}
