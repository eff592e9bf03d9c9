"""Pairs of messages, labelled by a reader: does the second tell the person anything the first did not?

Written for this project. `SAME` pairs ought to be caught as near duplicates, `DIFFERENT` ones ought not to be; each
is sorted by how the second differs from the first.
"""

from __future__ import annotations

Pairs = tuple[tuple[str, str], ...]

_BACKUP = (
    "The nightly backup of the customer database in Frankfurt finished without errors after forty minutes and was "
    "copied to the archive in Dublin"
)
_OUTAGE = (
    "We are seeing elevated error rates on the payments API in the EU region since this morning, engineers are "
    "investigating and the next update will follow on the status page as soon as the cause is known"
)
_FLIGHT = (
    "Your flight from Lisbon to Oslo this evening is delayed because of weather, please stay near the gate and watch "
    "the screens for the new boarding time"
)
_MEETING = (
    "Reminder: the quarterly planning meeting with the design team starts tomorrow in the large room on the third "
    "floor, please bring your notes and the list of open questions"
)
_REVIEW = (
    "Maria asked for your review of the change that moves invoices to the new storage, it touches the export job and "
    "the monthly report and should be merged before the release branch is cut"
)
_DELIVERY = (
    "Your parcel with the garden chairs has left the warehouse in Leipzig and will be brought to your front door by "
    "our driver, somebody should be at home to sign for it"
)

SAME: dict[str, Pairs] = {
    "punctuation, case, spacing": (
        (_BACKUP, _BACKUP.upper() + "."),
        (_OUTAGE, _OUTAGE.replace(",", " -")),
        (_FLIGHT, _FLIGHT + " !!!"),
        (_MEETING, _MEETING.replace("Reminder:", "Reminder –")),
        (_REVIEW, _REVIEW.replace(", it", "; it")),
        (_DELIVERY, _DELIVERY.replace("front door", "front-door")),
        ("Server db-7 is not reachable", "Server db-7 is NOT reachable!"),
        ("Ana replied to your comment: see you at nine", "Ana replied to your comment — see you at nine"),
    ),
    "one word of a long text changed": (
        (_BACKUP, _BACKUP.replace("finished", "completed")),
        (_OUTAGE, _OUTAGE.replace("seeing", "observing")),
        (_FLIGHT, _FLIGHT.replace("please", "kindly")),
        (_MEETING, _MEETING.replace("large", "big")),
        (_REVIEW, _REVIEW.replace("asked", "asks")),
        (_DELIVERY, _DELIVERY.replace("brought", "taken")),
        (_OUTAGE, _OUTAGE.replace("engineers", "our engineers")),
        (_BACKUP, _BACKUP.replace("The nightly", "Nightly")),
    ),
    "figures changed": (
        ("CPU load of web-3 is at 92.4 % for 5 minutes", "CPU load of web-3 is at 93.1 % for 6 minutes"),
        ("Disk /data on db-1 is 81 % full, 44 GB are left", "Disk /data on db-1 is 82 % full, 42 GB are left"),
        ("The queue holds 1204 jobs, the oldest is 12 s old", "The queue holds 1310 jobs, the oldest is 14 s old"),
        ("Error rate of checkout is 4.2 % since 09:15", "Error rate of checkout is 4.3 % since 09:15"),
        ("Latency p99 is 812 ms, the budget is 500 ms", "Latency p99 is 840 ms, the budget is 500 ms"),
        ("Your balance fell to 102.50 EUR after 3 payments", "Your balance fell to 99.10 EUR after 4 payments"),
        ("The temperature in room 4 is 29.5 degrees", "The temperature in room 4 is 29.8 degrees"),
        ("17 of 120 checks fail on the main branch", "18 of 120 checks fail on the main branch"),
    ),
    "words reordered": (
        ("The build of the main branch failed on Linux", "On Linux the build of the main branch failed"),
        ("Tomorrow at noon the office in Lyon is closed", "The office in Lyon is closed tomorrow at noon"),
        ("Your invoice for May is ready to download", "Ready to download: your invoice for May"),
        ("Ben and Ana commented on your photo", "Ana and Ben commented on your photo"),
        (_FLIGHT, "Because of weather y" + _FLIGHT[1:].replace(" because of weather", "")),
        (_MEETING, _MEETING.replace("tomorrow in the large room", "in the large room tomorrow")),
    ),
    "paraphrased": (
        ("Your parcel will arrive tomorrow", "We will bring your parcel the day after today"),
        ("The server db-7 cannot be reached", "There is no connection to the machine db-7"),
        ("Somebody signed in to your account from Peru", "New login to your account: a device in Peru"),
        ("The meeting was moved to Friday afternoon", "New time for the meeting, Friday after lunch"),
        ("Your payment was declined by the bank", "The bank did not accept your payment"),
        ("The deployment to production has failed", "Production could not be deployed"),
    ),
}

DIFFERENT: dict[str, Pairs] = {
    "one template, other names": (
        ("Ana Lopes replied to your comment on the budget", "Tom Berger replied to your comment on the budget"),
        ("Your parcel from Nordkap Books is on its way", "Your parcel from Feld and Garten is on its way"),
        ("Server db-7 is not reachable from Frankfurt", "Server web-2 is not reachable from Frankfurt"),
        ("The build of the branch release failed", "The build of the branch main failed"),
        ("Reminder: dentist tomorrow in the morning", "Reminder: parents evening tomorrow in the morning"),
        ("New login to your account from a device in Peru", "New login to your account from a device in Kenya"),
        (_BACKUP, _BACKUP.replace("customer", "orders").replace("Frankfurt", "Madrid")),
        (_REVIEW, _REVIEW.replace("invoices", "contracts").replace("Maria", "Jon")),
        (_FLIGHT, _FLIGHT.replace("Lisbon to Oslo", "Rome to Vienna")),
        (_DELIVERY, _DELIVERY.replace("garden chairs", "winter tyres").replace("Leipzig", "Gera")),
    ),
    "one template, other numbers": (
        ("Your order 4711 has been shipped today", "Your order 4712 has been shipped today"),
        ("Your code is 381 204, it is valid for 5 minutes", "Your code is 907 115, it is valid for 5 minutes"),
        ("Invoice 2026-114 over 80 EUR is due", "Invoice 2026-131 over 95 EUR is due"),
        ("Gate change: your flight leaves from gate 12", "Gate change: your flight leaves from gate 31"),
        ("Ticket 5510 was assigned to you by Ana", "Ticket 5523 was assigned to you by Ana"),
        ("Room 4 is booked for you at 10:00", "Room 9 is booked for you at 15:00"),
    ),
    "the opposite": (
        ("Server db-7 is reachable again from Frankfurt", "Server db-7 is not reachable from Frankfurt"),
        (_BACKUP, _BACKUP.replace("without errors", "with errors")),
        ("The build of the main branch failed", "The build of the main branch passed"),
        ("Your request for leave was approved by Ana", "Your request for leave was declined by Ana"),
        (_FLIGHT, _FLIGHT.replace("is delayed because of", "is cancelled because of")),
    ),
    "unrelated": (
        (_BACKUP, _OUTAGE),
        (_FLIGHT, _MEETING),
        (_REVIEW, _DELIVERY),
        ("Your invoice for May is ready to download", "Ana replied to your comment: see you at nine"),
        ("The temperature in room 4 is 29.5 degrees", "Your parcel will arrive tomorrow"),
        ("New login to your account from a device in Peru", "The queue holds 1204 jobs, the oldest is 12 s old"),
    ),
}
