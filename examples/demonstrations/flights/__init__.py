"""The rooms of the main example, `flights_exactly_once.py`, of `flights_in_a_bucket.py` and `flights_on_a_cluster.py`.

What happens            data       336,776 real flights, as records
                        loader     a process that writes them to the topic `flights`, in transactions
                        pipeline   a streaming query that finds the late departures; two processes run it:
                        query      into the topic `delayed`, exactly once, and
                        peer       into a folder of parquet files, as people do it today
                        kills      when the process of the query is killed
                        pauses     when a server stands still
What is seen of it      reading    what another program sees of either output
                        watcher    looks at the output again and again, and at the log once a second
                        story      what is remembered of a run
How it is judged        truth      which rows belong into the output
                        audit      the rows found, against the truth
How it is told          progress   on the terminal, while it runs
                        table      on the terminal, at the end
                        page       as one HTML page, with `chart` for the timeline
                        verdict    of a run without a twin: audit, table, and the log's own verification
How it is held together experiment one pipeline under all kills
                        steps      what an experiment consists of
                        waiting    for what programs do
                        beside     has work done in a thread during a block
                        processes  starts programs, and leaves none behind
                        folders    where a run keeps its things
                        command    runs an example to its end
What a cluster adds     cluster    its servers, and how to kill them; ZooKeeper's are in oncelog.testing
                        cluster_query       the process of the query
                        cluster_experiment  the pipeline under the kills of all parts
"""
