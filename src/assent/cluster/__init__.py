"""Tasks past one machine: functions run on the nodes of a Dask cluster; their attempts stay with the worker."""
